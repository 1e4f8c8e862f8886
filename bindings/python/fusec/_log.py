# SPDX-License-Identifier: Apache-2.0
"""Messages of the library go to the logger "fusec" of Python's logging."""
import atexit
import ctypes
import logging

from . import _ending, _library

_logger = logging.getLogger("fusec")


def _receive(_user, severity, message):
    # ctypes reports an exception of a handler by sys.unraisablehook, and lets none through to the library.
    _logger.log(logging.WARNING if severity <= 2 else logging.ERROR, "%s", message.decode(errors="replace"))


_callback = _library.LOG_FUNCTION(_receive)  # lives as long as the library may call it


def install():
    _library.function("set_log")(ctypes.cast(_callback, ctypes.c_void_p), None)
    atexit.register(_uninstall)


def _uninstall():
    _ending.wait()
    _library.function("set_log")(None, None)  # when it returns, no thread is in the callback or will enter it

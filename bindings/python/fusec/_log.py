# SPDX-License-Identifier: Apache-2.0
"""Messages of the library go to the logger "fusec" of Python's logging."""
import atexit
import ctypes
import logging

from . import _ending, _library

_logger = logging.getLogger("fusec")
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)  # by severity in fusec/c.h


def _receive(_user, severity, message):
    # ctypes reports an exception of a handler by sys.unraisablehook, and lets none through to the library.
    level = _LEVELS[min(max(severity, 0), len(_LEVELS) - 1)]
    if _logger.isEnabledFor(level):
        _logger.log(level, "%s", message.decode(errors="replace"))


_callback = _library.LOG_FUNCTION(_receive)  # lives as long as the library may call it


def install():
    _library.function("set_log")(ctypes.cast(_callback, ctypes.c_void_p), None)
    atexit.register(_uninstall)


def _uninstall():
    _ending.wait()
    _library.function("set_log")(None, None)  # when it returns, no thread is in the callback or will enter it

# SPDX-License-Identifier: Apache-2.0
"""What Python gives to the library: progress, and functions that models call."""
import ctypes
import sys
import threading

import numpy

from . import _library, _tensor
from ._errors import Cancelled, InvalidArgument
from ._structs import CALL_FUNCTION, PROGRESS_FUNCTION, Host

_OK, _INTERNAL = 0, 8
_registered = {}  # keeps the functions alive that the library may call


class Progress:
    """Tells function(stage, done) how far a call is; None: nobody. What that raises, or a handler of a signal such as Ctrl-C, cancels the
    call and is raised again when it has ended. The library may call this object until its engine is freed."""

    def __init__(self, function):
        if function is not None and not callable(function):
            raise InvalidArgument(f"progress is a {type(function).__name__}; it is a function of a stage and a number from 0 to 1")
        self._function, self._raised, self._active = function, None, True
        self._callback = PROGRESS_FUNCTION(self._receive)
        self._host = Host(ctypes.sizeof(Host), None, None, None, None, None, self._callback)

    def _receive(self, _user, stage, done):
        if not self._active or self._raised is not None:
            return int(self._active)
        try:
            return int(self._function is not None and bool(self._function(stage.decode(), done)))
        except BaseException as fault:
            self._raised = fault
            return 1

    def set(self, options):
        _library.call("options_set_host", options.value, ctypes.byref(self._host))

    def run(self, work):
        """work(), which the main thread leaves to another one: it must be free for signals."""
        results, done = [], threading.Lock()

        def note():
            try:
                results.append((work(), None))
            except BaseException as fault:
                results.append((None, fault))
            done.release()

        done.acquire()
        if threading.current_thread() is threading.main_thread():
            threading.Thread(target=note, daemon=True).start()
        else:
            note()
        while True:
            try:
                done.acquire()
                break
            except BaseException as fault:  # of a handler; the work at hand is waited for
                self._raised = self._raised or fault
        self._active = False
        made, fault = results[0]
        if self._raised is not None and (fault is None or isinstance(fault, Cancelled)):
            raise self._raised
        if fault is not None:
            raise fault
        return made


def _array(tensor):
    dtype = _tensor.numpy_dtype(tensor.dtype)
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    count = int(numpy.prod(shape, dtype=numpy.int64))
    if count == 0:
        return numpy.empty(shape, dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(tensor.data)
    return numpy.frombuffer(memory, dtype).reshape(shape)


def register_call(name, function):
    """From now on engines on the CPU call `function(*arrays, out=array, attributes=text)` for custom calls of this name. It writes to `out`
    from the others alone; arrays are the library's memory and must not be kept. None removes it."""
    if function is not None and not callable(function):
        raise InvalidArgument(f"a {type(function).__name__} is no function")

    def receive(_user, inputs, count, output, attributes, _stream):
        try:
            arrays = [_array(inputs[i]) for i in range(count)]
            for array in arrays:
                array.flags.writeable = False
            function(*arrays, out=_array(output[0]), attributes=attributes.decode())
            return _OK
        except BaseException:
            sys.excepthook(*sys.exc_info())
            return _INTERNAL

    callback = CALL_FUNCTION() if function is None else CALL_FUNCTION(receive)
    _library.call("register_call", name.encode(), b"cpu", callback, None)
    _registered.setdefault(name, []).append(callback)  # engines keep the one that they were made with

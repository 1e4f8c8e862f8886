# SPDX-License-Identifier: Apache-2.0
"""A GPU by its driver: memory that is freed in the order of streams, and events between streams."""
import ctypes
import logging
import os
import threading
from collections import deque
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_ushort, c_void_p

from . import _cuda, _ending
from ._errors import DeviceError, InvalidArgument, OutOfMemory

LEGACY, PER_THREAD = 1, 2  # CU_STREAM_LEGACY and CU_STREAM_PER_THREAD, which are DLPack's numbers, too
_NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: apart from the legacy default stream
_HAS_POOLS = 115  # CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
_RELEASE_THRESHOLD = 4  # CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
_NO_MEMORY, _IMPLICIT = 2, 906  # CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
_KEPT_BYTES = 256 << 20  # of freed memory that the pool keeps for later tensors when the host waits

_FUNCTIONS = {
    "cuDeviceGetAttribute": [c_void_p, c_int, c_int],
    "cuCtxPushCurrent_v2": [c_void_p],
    "cuCtxPopCurrent_v2": [c_void_p],
    "cuCtxSynchronize": [],
    "cuThreadExchangeStreamCaptureMode": [c_void_p],
    "cuMemPoolCreate": [c_void_p, c_void_p],
    "cuMemPoolSetAttribute": [c_void_p, c_int, c_void_p],
    "cuMemAllocFromPoolAsync": [c_void_p, c_size_t, c_void_p, c_void_p],
    "cuMemFreeAsync": [c_uint64, c_void_p],
    "cuMemAlloc_v2": [c_void_p, c_size_t],
    "cuMemFree_v2": [c_uint64],
    "cuMemcpyDtoHAsync_v2": [c_void_p, c_uint64, c_size_t, c_void_p],
    "cuMemcpyDtoDAsync_v2": [c_uint64, c_uint64, c_size_t, c_void_p],
    "cuStreamCreate": [c_void_p, c_uint],
    "cuStreamSynchronize": [c_void_p],
    "cuStreamIsCapturing": [c_void_p, c_void_p],
    "cuStreamGetCtx": [c_void_p, c_void_p],
    "cuStreamWaitEvent": [c_void_p, c_void_p, c_uint],
    "cuEventCreate": [c_void_p, c_uint],
    "cuEventDestroy_v2": [c_void_p],
    "cuEventRecord": [c_void_p, c_void_p],
    "cuEventSynchronize": [c_void_p],
    "cuGetErrorName": [c_int, c_void_p],
}


class _PoolProperties(ctypes.Structure):
    """CUmemPoolProps."""

    _fields_ = [("type", c_int), ("handles", c_int), ("location", c_int), ("device", c_int), ("security", c_void_p), ("most", c_size_t),
                ("usage", c_ushort), ("reserved", ctypes.c_ubyte * 54)]


class _Driver:
    """The functions, those that this driver has."""

    def __init__(self):
        library = _cuda.driver()
        for name, parameters in _FUNCTIONS.items():
            function = None
            if hasattr(library, name):
                function = ctypes.CFUNCTYPE(c_int, *parameters)((name, library))
            setattr(self, name, function)


_gpus = {}
_making = threading.Lock()


def get(ordinal):
    gpu = _gpus.get(ordinal)
    if gpu is None:
        with _making:
            gpu = _gpus.get(ordinal)
            if gpu is None:
                gpu = _gpus[ordinal] = Gpu(ordinal)
    return gpu


class _Inside:
    """While it is entered, the GPU's context is current, and a capture of another stream forbids nothing."""

    __slots__ = ("_gpu", "_mode")

    def __init__(self, gpu):
        self._gpu, self._mode = gpu, c_int(_cuda.RELAXED)

    def __enter__(self):
        gpu = self._gpu
        gpu.check("cuCtxPushCurrent_v2", gpu.driver.cuCtxPushCurrent_v2(gpu.context))
        gpu.driver.cuThreadExchangeStreamCaptureMode(byref(self._mode))

    def __exit__(self, *_):
        driver = self._gpu.driver
        driver.cuThreadExchangeStreamCaptureMode(byref(self._mode))
        driver.cuCtxPopCurrent_v2(byref(c_void_p()))


class Gpu:
    """One GPU. Its functions are called inside `with gpu.inside():`, on any thread."""

    def __init__(self, ordinal):
        self.ordinal, self.name = ordinal, f"cuda:{ordinal}"
        self.driver = _Driver()
        self.context = _cuda.context(_cuda.driver(), ordinal)
        self.process = os.getpid()  # a child that was forked cannot use the context
        self.deferred = deque()
        with self.inside():
            self._pool = self._make_pool()
            self.waited = self._make_stream()  # what is put there, the host waits for at once
            self.frees = self._make_stream()  # may wait for long

    def inside(self):
        return _Inside(self)

    def check(self, function, status):
        if status != 0:
            name = c_char_p()
            self.driver.cuGetErrorName(status, byref(name))
            text = name.value.decode() if name.value else str(status)
            raise DeviceError(f"{function} on {self.name} answered {text}")

    def call(self, function, *arguments):
        self.check(function, getattr(self.driver, function)(*arguments))

    def _make_pool(self):
        has, pool = c_int(), c_void_p()
        self.call("cuDeviceGetAttribute", byref(has), _HAS_POOLS, _cuda.device(self.ordinal))
        if not has.value or self.driver.cuMemAllocFromPoolAsync is None:
            return None
        self.call("cuMemPoolCreate", byref(pool), byref(_PoolProperties(type=1, location=1, device=_cuda.device(self.ordinal))))
        self.call("cuMemPoolSetAttribute", pool, _RELEASE_THRESHOLD, byref(c_uint64(_KEPT_BYTES)))
        return pool

    def _make_stream(self):
        stream = c_void_p()
        self.call("cuStreamCreate", byref(stream), _NON_BLOCKING)
        return stream.value

    def is_capturing(self, stream):
        status = c_int()
        self.call("cuStreamIsCapturing", stream, byref(status))
        return status.value != 0

    def is_barred(self, stream):
        """Whether nothing but a part of a graph can be put on a stream: it is captured, or it is the legacy default stream, and another one
        is."""
        status = c_int()
        answer = self.driver.cuStreamIsCapturing(stream, byref(status))
        if answer != _IMPLICIT:
            self.check("cuStreamIsCapturing", answer)
        return answer == _IMPLICIT or status.value != 0

    def check_stream(self, stream):
        """That it can be used with the engines of this GPU."""
        context = c_void_p()
        if stream in (LEGACY, PER_THREAD) or self.driver.cuStreamGetCtx(stream, byref(context)) != 0:
            return
        if context.value != self.context.value:
            raise InvalidArgument(f"the stream belongs to another GPU, or to another context than the primary one of {self.name}, on which the "
                                  "engine runs; make it there")

    def synchronize(self):
        self.call("cuCtxSynchronize")

    def new_event(self):
        event = c_void_p()
        self.call("cuEventCreate", byref(event), _NO_TIMING)
        return event.value

    def allocate(self, size, stream):
        """Memory to use on this stream."""
        self.free_deferred()
        address = c_uint64()
        if size == 0:
            return 0
        if self._pool is not None:
            status = self.driver.cuMemAllocFromPoolAsync(byref(address), size, self._pool, stream)
        else:
            status = self.driver.cuMemAlloc_v2(byref(address), size)
        if status == _NO_MEMORY:
            raise OutOfMemory(f"there is no memory left on {self.name} for an output of {size} bytes")
        self.check("cuMemAllocFromPoolAsync" if self._pool is not None else "cuMemAlloc", status)
        return address.value

    def free(self, address, stream, events):
        """Behind what is on the stream, and these events."""
        if self._pool is not None:
            for event in events:
                self.call("cuStreamWaitEvent", stream, event, 0)
            self.call("cuMemFreeAsync", address, stream)
            return
        for event in events:
            self.call("cuEventSynchronize", event)
        self.call("cuStreamSynchronize", stream)
        self.call("cuMemFree_v2", address)

    def free_deferred(self):
        """What could not be freed while a stream was captured."""
        for _ in range(len(self.deferred)):
            try:
                memory = self.deferred.popleft()
            except IndexError:  # another thread has taken it
                return
            memory.free()


def _key(stream):
    """Of a stream among those of all threads."""
    return (PER_THREAD, threading.get_ident()) if stream == PER_THREAD else stream


class Memory:
    """Memory of a GPU for work on one stream, and the order of the work on others. It is freed when nobody refers to it, behind all that used
    it; no stream of the caller waits for that. `stream` is None where the host waits for all work on it. `keep` is the object that the
    stream belongs to.

    Its methods are called from any thread, and, as a finalizer may call them, at any point of another call of them. So there is no lock:
    what they change is changed by one operation of a dict or a set."""

    __slots__ = ("gpu", "size", "address", "_own", "_keep", "_events", "_late", "_written")

    def __init__(self, gpu, size, stream, keep=None):
        """Inside the GPU."""
        self.address = 0  # for __del__, if this fails
        self.gpu, self.size, self._keep = gpu, size, keep
        self._own = None if stream is None else _key(stream)
        self._events = {}  # by stream, of the last work there
        self._late = set()  # streams that were captured when their work ended
        self._written = set()  # streams other than the own one with work that wrote, or may have
        self.address = gpu.allocate(size, gpu.waited if stream is None else stream)

    def _mark(self, key):
        """Has the event of a stream tell when the work that is there now is over."""
        gpu = self.gpu
        stream = key
        if type(key) is tuple:
            if key[1] != threading.get_ident():  # nobody but its thread can name it
                gpu.synchronize()
                return
            stream = PER_THREAD
        event = self._events.get(key)
        if event is None:
            made = gpu.new_event()
            event = self._events.setdefault(key, made)
            if event is not made:
                gpu.call("cuEventDestroy_v2", made)
        else:
            gpu.call("cuStreamWaitEvent", stream, event, 0)  # see order
        gpu.call("cuEventRecord", event, stream)

    def order(self, stream, write=False):
        """Makes a stream wait for the work that has written, or, before it writes, for all work. Inside the GPU."""
        if self.address == 0:
            return
        key, own = _key(stream), self._own
        if own is not None and own != key:
            self._refuse_capture()
            self._mark(own)
        for other, event in self._events.copy().items():
            # Also for work on this stream, as its handle may have belonged to another one, which is gone.
            if (write or other == own or other in self._written) and not other == key == own:
                self.gpu.call("cuStreamWaitEvent", stream, event, 0)

    def used(self, stream, write=False):
        """Notes work that is on a stream by now. Inside the GPU."""
        key = _key(stream)
        if self.address == 0:
            return
        if key == self._own:
            return
        if self.gpu.is_barred(stream):
            self._late.add(key)
            return
        self._mark(key)
        if write:
            self._written.add(key)

    def wait(self, write=False):
        """Waits for the work as `order` does, on the host. Inside the GPU."""
        if self._own is None and not self._events:
            return
        self.order(self.gpu.waited, write)
        self.gpu.call("cuStreamSynchronize", self.gpu.waited)

    def _refuse_capture(self):
        if self.gpu.is_barred(self._stream_of(self._own)):
            raise InvalidArgument("the stream that a tensor was made on is being captured, and nothing outside can wait for it; use the tensor "
                                  "elsewhere when the capture has ended")

    @staticmethod
    def _stream_of(key):
        return key[0] if type(key) is tuple else key

    def free(self):
        """Once, when nobody uses it any more."""
        gpu = self.gpu
        try:
            with gpu.inside():
                if self._is_in_capture():
                    gpu.deferred.append(self)  # until the next tensor is made
                    return
                try:
                    self._free_in_order()
                except DeviceError:  # such as of a stream that is gone
                    gpu.synchronize()
                    gpu.free(self.address, gpu.frees, ())
                for event in self._events.values():
                    gpu.call("cuEventDestroy_v2", event)
        except DeviceError as fault:
            logging.getLogger("fusec").warning("memory of a tensor is lost: %s", fault)

    def _is_in_capture(self):
        """Whether a stream that it must be freed behind is captured: the free would become a part of the graph."""
        try:
            return any(self.gpu.is_barred(self._stream_of(key)) for key in (self._own, *self._late) if key is not None)
        except DeviceError:
            return False

    def _free_in_order(self):
        gpu, own = self.gpu, self._own
        for key in self._late:
            self._mark(key)
        others = [event for key, event in self._events.copy().items() if key != own]
        if own is None or others or type(own) is tuple:
            if own is not None:
                self._mark(own)
            gpu.free(self.address, gpu.frees, self._events.values())
        else:
            gpu.free(self.address, own, ())

    def __del__(self):
        if self.address != 0 and os.getpid() == self.gpu.process:
            self.free()


@_ending.at_end
def _leave_memory_to_the_process():
    del Memory.__del__

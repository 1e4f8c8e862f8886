# SPDX-License-Identifier: Apache-2.0
"""Tensors in the memory of a GPU, which other libraries take by DLPack."""
import ctypes
import math
import operator
import os
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p, py_object
from sys import getrefcount

import numpy

from . import _ending, _gpu, _tensor
from ._errors import InvalidArgument
from ._structs import CPU, CUDA, DType, ManagedTensor, OldManagedTensor, Tensor

_IS_COPIED = 2  # DLPACK_FLAG_BITMASK_IS_COPIED
_NAMES = {False: b"dltensor", True: b"dltensor_versioned"}


def new(gpu, shape, dtype, stream=None, keep=None):
    """A tensor of fusec's dtype, its contents undefined. Inside the GPU. Without a stream, the host must wait for gpu.waited before use."""
    size = math.prod(shape) * _tensor.NUMPY[dtype].itemsize
    return GpuTensor(_gpu.Memory(gpu, size, stream, keep), tuple(shape), dtype)


class GpuTensor:
    """A dense tensor in the memory of a GPU: an output of a run with out="device" or with a stream. Other libraries take it without a copy
    by DLPack, such as torch.from_dlpack(y); runs take it as an input, and as an output to write to."""

    __slots__ = ("_memory", "_shape", "_dtype", "__weakref__")

    def __init__(self, memory, shape=(), dtype=""):
        if not isinstance(memory, _gpu.Memory):
            raise TypeError('a GpuTensor is made by a run with out="device" or with a stream')
        self._memory, self._shape, self._dtype = memory, shape, dtype

    shape = property(lambda self: self._shape, doc="The extents, a tuple.")
    dtype = property(lambda self: self._dtype, doc='The name that fusec has for it, such as "f32" or "bf16".')
    device = property(lambda self: self._memory.gpu.name, doc='Such as "cuda:0".')
    nbytes = property(lambda self: self._memory.size, doc="The bytes of all elements.")

    def numpy(self):
        """A copy on the host, behind the work that is queued. NumPy has no bf16: an array of it holds the bits as uint16."""
        made = numpy.empty(self._shape, _tensor.NUMPY[self._dtype])
        memory = self._memory
        if memory.size:
            gpu = memory.gpu
            with gpu.inside():
                memory.order(gpu.waited)
                gpu.call("cuMemcpyDtoHAsync_v2", made.ctypes.data, memory.address, memory.size, gpu.waited)
                gpu.call("cuStreamSynchronize", gpu.waited)
        return made

    def __dlpack_device__(self):
        return (CUDA, self._memory.gpu.ordinal)

    def __dlpack__(self, stream=None, max_version=None, dl_device=None, copy=None):
        """A capsule for another library, whose work on `stream` from here on waits for the work that has written the tensor. None and 1: the
        legacy default stream; 2: the per-thread one; -1: nothing waits."""
        stream = _consumer(stream)
        versioned = max_version is not None and tuple(max_version) >= (1, 0)
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            return self._copy_for_host(tuple(dl_device), versioned, copy)
        memory, gpu = self._memory, self._memory.gpu
        with gpu.inside():
            is_captured = stream is not None and gpu.is_capturing(stream)
            if is_captured and copy:
                raise BufferError("the stream is being captured, and a copy would be a part of the graph; copy before the capture")
            if copy:
                memory = self._copy(stream)
            elif stream is not None and not is_captured:  # in a capture the order is a matter of the graph
                memory.order(stream)
        return _export(_Exported(memory, stream), memory.address, (CUDA, gpu.ordinal), self._shape, self._dtype, versioned, bool(copy))

    def _copy(self, stream):
        """On the consumer's stream, if that is known, else on the own one."""
        memory, gpu = self._memory, self._memory.gpu
        behind = stream if stream is not None else gpu.waited
        made = _gpu.Memory(gpu, memory.size, stream)
        if memory.size:
            memory.order(behind)
            gpu.call("cuMemcpyDtoDAsync_v2", made.address, memory.address, memory.size, behind)
            if stream is None:
                gpu.call("cuStreamSynchronize", behind)
            else:
                memory.used(stream)
        return made

    def _copy_for_host(self, device, versioned, copy):
        if device[0] != CPU:
            raise BufferError(f"a tensor of {self.device} is not copied to device {device} of DLPack; to {self.__dlpack_device__()} and to the "
                              "CPU it is")
        if copy is not None and not copy:
            raise BufferError(f"a tensor of {self.device} is on the CPU by a copy alone, and copy is False")
        made = self.numpy()
        return _export(_Exported(made, None), made.ctypes.data, (CPU, 0), self._shape, self._dtype, versioned, True)

    def _argument(self):
        """The struct for a call of the library; the order is the caller's matter."""
        tensor, rank = Tensor(), len(self._shape)
        tensor.data, tensor.ndim, tensor.dtype = self._memory.address, rank, DType(*_tensor.CODES[self._dtype], 1)
        tensor.device.type, tensor.device.ordinal = CUDA, self._memory.gpu.ordinal
        shape = (c_int64 * rank)(*self._shape)
        tensor.shape = shape
        return _tensor.Argument(tensor, (self, shape), self._shape, self._dtype)

    def _ready_argument(self, write):
        """For a call that does not look at streams: the host waits."""
        with self._memory.gpu.inside():
            self._memory.wait(write)
        return self._argument()

    def __array__(self, *_, **__):
        raise TypeError(f"a tensor of {self.device} is no array; .numpy() copies it to the host")

    def __repr__(self):
        return f"fusec.GpuTensor({self._dtype}{list(self._shape)} on {self.device})"

    def __reduce__(self):
        raise TypeError("a GpuTensor is not pickled or copied; .numpy() copies it to the host")

    def __del__(self):
        _free_unused()


def _consumer(stream):
    """The stream of a consumer by DLPack's number; None: it is not told."""
    if stream is None:
        return _gpu.LEGACY
    try:
        stream = None if isinstance(stream, bool) else operator.index(stream)
    except TypeError:
        stream = None
    if stream is None or stream < -1 or stream == 0:
        raise InvalidArgument("stream of __dlpack__ is None, 1 for the legacy default stream, 2 for the per-thread one, -1 for no order, or the "
                              "handle of a stream; 0 could be either default")
    return None if stream == -1 else stream


# Managed tensors are memory of the C library, as a consumer may read one after Python has ended.
_c = ctypes.CDLL(None)
_malloc = ctypes.CFUNCTYPE(c_void_p, c_size_t)(("malloc", _c))
_free = ctypes.CFUNCTYPE(None, c_void_p)(("free", _c))

# Prototypes of their own: others may have set parameters for the functions of ctypes.pythonapi.
_new_capsule = ctypes.PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))
_is_capsule = ctypes.PYFUNCTYPE(c_int, py_object, c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_raise_exception = ctypes.PYFUNCTYPE(c_void_p)(("PyErr_Occurred", ctypes.pythonapi))  # that is on its way, as any such call does


class _Exported:
    """What a managed tensor keeps, and how it ends."""

    __slots__ = ("memory", "stream", "capsule", "name", "kind")

    def __init__(self, memory, stream):
        self.memory, self.stream = memory, stream

    def end(self):
        """The consumer's work is on its stream by now."""
        if self.stream is not None and os.getpid() == self.memory.gpu.process:
            with self.memory.gpu.inside():
                self.memory.used(self.stream, write=True)  # for all that is known


_exported = {}  # by the address of the managed tensor
# Those that nobody has taken yet. A capsule has no destructor: ctypes would call it through the interpreter, also while a call fails (such as
# numpy.from_dlpack of memory of a GPU), and would lose the exception of that. Instead they are looked at when a tensor is made or ends.
_fresh = {}


def _references(exported):
    return getrefcount(exported.capsule)


def _alone():
    """What _references answers if nobody else has the capsule."""
    probe = _Exported(None, None)
    probe.capsule = object()
    return _references(probe)


_ALONE = _alone()


def _free_unused():
    """Ends capsules that died unused."""
    for address in list(_fresh):
        exported = _fresh.get(address)
        if exported is None:
            continue
        if not _is_capsule(exported.capsule, exported.name):  # a consumer has taken it and renamed it
            _fresh.pop(address, None)
        elif _references(exported) == _ALONE and _fresh.pop(address, None) is not None:
            _end(address)


def _end(address):
    exported = _exported.pop(address, None)
    if exported is not None:
        _free(address)
        exported.end()


@ctypes.CFUNCTYPE(None, c_void_p)
def _deleter(address):
    """On any thread. Where the consumer calls it while an exception is on its way, ctypes cannot let that go on: it is shown by
    sys.unraisablehook, and the failing call raises SystemError."""
    try:
        _raise_exception()
    finally:
        _fresh.pop(address, None)
        _end(address)


_ends = ctypes.cast(_deleter, c_void_p)


def _export(exported, data, device, shape, dtype, versioned, is_copied):
    _free_unused()
    kind, rank = ManagedTensor if versioned else OldManagedTensor, len(shape)
    extents = c_int64 * (2 * rank)
    room = ctypes.sizeof(kind)
    address = _malloc(room + ctypes.sizeof(extents))
    ctypes.memset(address, 0, room)
    strides, step = [], 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    extents.from_address(address + room)[:] = [*shape, *strides]
    managed = kind.from_address(address)
    tensor = managed.tensor
    tensor.data, tensor.ndim, tensor.dtype = data, rank, DType(*_tensor.CODES[dtype], 1)
    tensor.device.type, tensor.device.ordinal = device
    tensor.shape = ctypes.cast(address + room, POINTER(c_int64))
    tensor.strides = ctypes.cast(address + room + rank * ctypes.sizeof(c_int64), POINTER(c_int64))
    managed.deleter = _ends
    if versioned:
        managed.version.major, managed.flags = 1, _IS_COPIED if is_copied else 0
    exported.name = _NAMES[versioned]
    exported.capsule = capsule = _new_capsule(address, exported.name, None)
    exported.kind = kind
    _exported[address] = exported
    _fresh[address] = exported
    return capsule


@_ending.at_end
def _leave_tensors_to_their_consumers():
    """A consumer that calls a deleter from here on ends the managed tensor by `free`: Python is not there for it."""
    global _ends
    del GpuTensor.__del__
    _ends = ctypes.cast(_free, c_void_p)
    for address, exported in list(_exported.items()):
        exported.kind.from_address(address).deleter = _ends

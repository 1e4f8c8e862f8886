# SPDX-License-Identifier: Apache-2.0
"""Streams of the caller, in the forms that libraries have them, and the tensors of a run on one."""
import operator

from . import _gpu, _tensor
from ._errors import InvalidArgument
from ._gpu_tensor import GpuTensor
from ._structs import CUDA

_FORMS = "the handle of a CUDA stream as an int, or an object with __cuda_stream__, cuda_stream, ptr or handle"


class Stream:
    """A handle, and the object that it belongs to."""

    __slots__ = ("handle", "keep")

    def __init__(self, handle, keep):
        self.handle, self.keep = handle, keep


def _number(value):
    value = getattr(value, "value", value)  # of ctypes
    return 0 if value is None else operator.index(int(value))


def _find(stream):
    if isinstance(stream, (str, bytes, bool, float)):
        return None
    try:
        return operator.index(stream)
    except TypeError:
        pass
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        version, handle = protocol() if callable(protocol) else protocol
        return _number(handle)
    for name in ("cuda_stream", "ptr", "handle"):  # of PyTorch, CuPy, Numba
        if hasattr(stream, name):
            return _number(getattr(stream, name))
    return _number(stream) if hasattr(stream, "value") else None


def take(stream):
    """What a caller gave as `stream`. The legacy default stream is 0 or 1."""
    try:
        handle = _find(stream)
    except (TypeError, ValueError):
        handle = None
    if handle is None or handle < 0:
        what = f"stream is {stream}" if isinstance(stream, int) else f"stream is a {type(stream).__name__}"
        raise InvalidArgument(f"{what}; it is {_FORMS}")
    return Stream(handle or _gpu.LEGACY, stream)


class Placed:
    """A tensor of a run on a stream: its address, None if it has strides; its Memory, if it has one."""

    __slots__ = ("address", "shape", "dtype", "memory", "_source")

    def __init__(self, address, shape, dtype, memory, source):
        self.address, self.shape, self.dtype, self.memory, self._source = address, shape, dtype, memory, source

    def argument(self):
        return self._source if self.memory is None else self._source._argument()


def place(item, name, gpu, stream, captured, write=False):
    """A tensor for a run on a stream, which waits for the work on the tensor; in a capture that is a matter of the graph. Inside the GPU."""
    if type(item) is GpuTensor and item._memory.gpu is gpu:
        memory = item._memory
        if not captured:
            memory.order(stream, write)
        return Placed(memory.address, item._shape, item._dtype, memory, item)
    where = tuple(map(int, item.__dlpack_device__())) if hasattr(item, "__dlpack_device__") else None
    if where != (CUDA, gpu.ordinal):
        where = f"device {where} of DLPack" if where is not None and where[0] == CUDA else "the host"
        raise InvalidArgument(f"{name} is a {type(item).__name__} on {where}, and a run on a stream takes tensors of {gpu.name}; move it there, "
                              f"such as by torch.as_tensor(x, device='{gpu.name}'), or call without stream=")
    argument = _tensor.of_dlpack(item, name, write, stream)
    return Placed(_dense_address(argument), argument.shape, argument.dtype, None, argument)


def _dense_address(argument):
    tensor, step = argument.tensor, 1
    if tensor.strides:
        for axis in reversed(range(tensor.ndim)):
            if argument.shape[axis] != 1 and tensor.strides[axis] != step:
                return None
            step *= argument.shape[axis]
    return (tensor.data or 0) + tensor.byte_offset

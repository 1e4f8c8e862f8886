# SPDX-License-Identifier: Apache-2.0
"""Arrays as tensors of the C interface: NumPy arrays, and objects with __dlpack__, both without a copy."""
import ctypes
from ctypes import byref, c_char_p, c_int64, c_void_p, py_object

import numpy

from . import _cuda
from ._errors import InvalidArgument
from ._structs import CPU, CUDA, CUDA_MANAGED, DType, ManagedTensor, Tensor

_INT, _UINT, _FLOAT, _BFLOAT, _BOOL = 0, 1, 2, 4, 6
CODES = {"f64": (_FLOAT, 64), "f32": (_FLOAT, 32), "f16": (_FLOAT, 16), "bf16": (_BFLOAT, 16), "bool": (_BOOL, 8)}
for _bits in (8, 16, 32, 64):
    CODES[f"i{_bits}"], CODES[f"u{_bits}"] = (_INT, _bits), (_UINT, _bits)
_NAMES = {code: name for name, code in CODES.items()}

# NumPy has no bf16: its arrays hold the bits.
NUMPY = {name: numpy.dtype({"bf16": "uint16", "bool": "bool"}.get(name, name[0] + str(bits // 8))) for name, (_, bits) in CODES.items()}
_OF_NUMPY = {dtype: name for name, dtype in NUMPY.items() if name != "bf16"}


def dtype_name(dtype):
    """The name that fusec has for a dtype: of "f32", numpy.float32, numpy.dtype, or an ml_dtypes.bfloat16."""
    if isinstance(dtype, str) and dtype in CODES:
        return dtype
    try:
        found = numpy.dtype(dtype)
    except TypeError:
        found = None
    name = _name_of(found) if found is not None else None
    if name is None:
        raise InvalidArgument(f"{dtype!r} is no dtype of fusec; these are: {', '.join(sorted(CODES))}, and NumPy's dtypes of these kinds")
    return name


def numpy_dtype(dtype):
    """Of a struct DType."""
    return NUMPY[_NAMES[dtype.code, dtype.bits]]


def _name_of(dtype):
    return _OF_NUMPY.get(dtype) or ("bf16" if dtype.name == "bfloat16" else None)


def from_bf16(bits):
    """A float32 array of the values whose bf16 bits a uint16 array holds."""
    return (numpy.asarray(bits).view(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)


def to_bf16(values):
    """A uint16 array of the bf16 bits of values, rounded to nearest, ties to even."""
    values = numpy.asarray(values, numpy.float32)
    bits = values.view(numpy.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)
    return numpy.where(numpy.isnan(values), numpy.uint16(0x7FC0), rounded)


class Argument:
    """One tensor of a call: the struct, and what must live as long as it is used."""

    __slots__ = ("tensor", "keep", "shape", "dtype")

    def __init__(self, tensor, keep, shape, dtype):
        self.tensor, self.keep, self.shape, self.dtype = tensor, keep, shape, dtype


def _of_array(array, name, expected):
    dtype = _name_of(array.dtype) or "none of fusec"
    if expected == "bf16" and array.dtype == NUMPY["bf16"]:
        dtype = "bf16"
    if dtype == "none of fusec" or not array.dtype.isnative:
        raise InvalidArgument(f"{name} has dtype {array.dtype}, which fusec lacks; convert it by .astype()")
    size, rank = array.itemsize, array.ndim
    tensor = Tensor()
    tensor.data, tensor.ndim = array.ctypes.data, rank
    tensor.device.type = CPU
    tensor.dtype = DType(*CODES[dtype], 1)
    shape, keep = (c_int64 * rank)(*array.shape), array
    tensor.shape = shape
    if not array.flags.c_contiguous:
        if any(stride % size for stride in array.strides):
            return None  # a field of a record: the caller copies
        tensor.strides = (c_int64 * rank)(*(stride // size for stride in array.strides))
    return Argument(tensor, (keep, shape), array.shape, dtype)


_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = c_void_p, [py_object, c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [py_object, c_char_p]
_NO_ORDER = -1  # as DLPack numbers streams
_READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY


def of_dlpack(item, name, write, stream=None):
    """The work on a GPU tensor is waited for: by the stream, or, without one, by the host."""
    if hasattr(item, "_ready_argument"):  # a GpuTensor, which needs no capsule
        return item._ready_argument(write)
    keywords = {}
    on_gpu = hasattr(item, "__dlpack_device__") and int(item.__dlpack_device__()[0]) in (CUDA, CUDA_MANAGED)
    if on_gpu:
        keywords["stream"] = 1 if stream is None else stream  # 1: the legacy default stream waits for what the producer has queued
    try:
        capsule = item.__dlpack__(max_version=(1, 0), **keywords)
    except TypeError:  # DLPack before 1.0
        capsule = item.__dlpack__(**keywords)
    # The capsule keeps its name, so its own destructor ends the tensor when the call is over.
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = ctypes.cast(_get_pointer(capsule, b"dltensor_versioned"), ctypes.POINTER(ManagedTensor)).contents
        if managed.version.major != 1:
            raise InvalidArgument(f"{name} speaks DLPack {managed.version.major}, and fusec 1.x")
        if write and managed.flags & _READ_ONLY:
            raise InvalidArgument(f"{name} is read-only, and an output is written to")
        tensor = managed.tensor
    elif _is_valid(capsule, b"dltensor"):
        tensor = ctypes.cast(_get_pointer(capsule, b"dltensor"), ctypes.POINTER(Tensor)).contents
    else:
        raise InvalidArgument(f"{name}.__dlpack__() gave no DLPack capsule that is unused")
    dtype = _NAMES.get((tensor.dtype.code, tensor.dtype.bits)) if tensor.dtype.lanes == 1 else None
    if dtype is None:
        raise InvalidArgument(f"{name} has DLPack dtype code {tensor.dtype.code} of {tensor.dtype.bits} bits, which fusec lacks")
    if on_gpu and stream is None:
        _cuda.wait_for_default_stream(tensor.device.ordinal)
    return Argument(tensor, (capsule, item), tuple(tensor.shape[: tensor.ndim]), dtype)


def read(item, name, expected=None):
    """An input. Lists and numbers become NumPy arrays of the dtype that is expected."""
    if not isinstance(item, numpy.ndarray):
        if hasattr(item, "__dlpack__") and not isinstance(item, numpy.generic):
            return of_dlpack(item, name, write=False)
        try:
            if isinstance(item, numpy.generic) or expected is None:
                item = numpy.asarray(item)
            else:
                item = to_bf16(item) if expected == "bf16" else numpy.asarray(item, NUMPY[expected])
        except (TypeError, ValueError) as fault:
            raise InvalidArgument(f"{name} is a {type(item).__name__}, which is no array: {fault}; give a NumPy array, a number, or an object "
                                  "with __dlpack__") from None
    return _of_array(item, name, expected) or _of_array(numpy.ascontiguousarray(item), name, expected)


def look_at(item, name):
    """An input of which nothing but dtype and shape is used: the work on it need not be over."""
    if hasattr(item, "_argument"):
        return item._argument()
    if hasattr(item, "__dlpack__") and not isinstance(item, (numpy.ndarray, numpy.generic)):
        return of_dlpack(item, name, write=False, stream=_NO_ORDER)
    return read(item, name)


def write(item, name, expected):
    """An output that the caller gave."""
    if isinstance(item, numpy.ndarray):
        if not item.flags.writeable:
            raise InvalidArgument(f"{name} is a read-only array, and an output is written to")
        argument = _of_array(item, name, expected)
        if argument is None:
            raise InvalidArgument(f"{name} has strides of {item.strides} bytes, which are no multiples of its elements; give another array")
        return argument
    if hasattr(item, "__dlpack__") and not isinstance(item, numpy.generic):
        return of_dlpack(item, name, write=True)
    raise InvalidArgument(f"{name} is a {type(item).__name__}; an output is a NumPy array or an object with __dlpack__")


def pointer(argument):
    return byref(argument.tensor)

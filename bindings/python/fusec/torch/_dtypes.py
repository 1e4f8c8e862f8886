# SPDX-License-Identifier: Apache-2.0
"""Dtypes of torch and of fusec, and tensors of torch as tensors of the C interface."""
import ctypes

import torch

from .._structs import CPU, CUDA, DType, ManagedTensor, Tensor
from .._tensor import CODES
from ._refused import Refused

NAMES = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.bool: "bool",
         torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8"}
for _wide in ("uint16", "uint32", "uint64"):
    if hasattr(torch, _wide):
        NAMES[getattr(torch, _wide)] = "u" + _wide[4:]


def name(dtype):
    if dtype not in NAMES:
        raise Refused(f"fusec has no dtype {dtype}")
    return NAMES[dtype]


def fill(struct, tensor, shape):
    """Writes the struct of a dense tensor; `shape` is a ctypes array that lives as long as the struct."""
    struct.data, struct.ndim = tensor.data_ptr(), tensor.dim()
    on_gpu = tensor.device.type == "cuda"
    struct.device.type, struct.device.ordinal = (CUDA, tensor.device.index or 0) if on_gpu else (CPU, 0)
    struct.dtype = DType(*CODES[name(tensor.dtype)], 1)
    struct.shape = shape


_libc = ctypes.CDLL(None)
_libc.calloc.restype, _libc.calloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_size_t]
_FREE = ctypes.cast(_libc.free, ctypes.c_void_p).value


def borrowed(tensor):
    """(what must live during the call, the address of a ManagedTensor that shares the memory of a dense tensor of the host). The struct
    is freed by its deleter, which is free(): the library may call it when there is no Python any more. The tensor must live as long as
    engines read it."""
    address = _libc.calloc(1, ctypes.sizeof(ManagedTensor))
    managed, shape = ManagedTensor.from_address(address), (ctypes.c_int64 * tensor.dim())(*tensor.shape)
    managed.version.major, managed.deleter = 1, _FREE
    fill(managed.tensor, tensor, shape)
    return shape, managed


def copied(tensor):
    """(what must live during the call, a Tensor)."""
    struct, shape = Tensor(), (ctypes.c_int64 * tensor.dim())(*tensor.shape)
    fill(struct, tensor, shape)
    return shape, struct

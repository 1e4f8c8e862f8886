# SPDX-License-Identifier: Apache-2.0
"""The structs of fusec/c.h, which have the layout of DLPack 1.x."""
import ctypes
from ctypes import POINTER, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13


class Device(ctypes.Structure):
    _fields_ = [("type", c_int32), ("ordinal", c_int32)]


class DType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device", Device), ("ndim", c_int32), ("dtype", DType), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class Version(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32)]


class ManagedTensor(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [("version", Version), ("manager_ctx", c_void_p), ("deleter", c_void_p), ("flags", c_uint64), ("tensor", Tensor)]


class OldManagedTensor(ctypes.Structure):
    """DLManagedTensor, of DLPack before 1.0."""

    _fields_ = [("tensor", Tensor), ("manager_ctx", c_void_p), ("deleter", c_void_p)]


CALL_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, c_void_p, POINTER(Tensor), ctypes.c_size_t, POINTER(Tensor), ctypes.c_char_p, c_void_p)
PROGRESS_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, c_void_p, ctypes.c_char_p, ctypes.c_double)


class Host(ctypes.Structure):
    """fusec_host; of its functions this package gives `progress` alone."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("user", c_void_p), ("alloc", c_void_p), ("free", c_void_p), ("num_threads", c_void_p),
                ("parallel_for", c_void_p), ("progress", PROGRESS_FUNCTION)]

# SPDX-License-Identifier: Apache-2.0
"""fusec: compiles neural networks and runs them.

    engine = fusec.compile("model.onnx")
    y = engine(x)
"""
from . import _library, _log
from ._builder import Builder, Value
from ._host import register_call
from ._engine import Engine, Session, compile, devices, load
from ._errors import (Cancelled, CompileFailed, DeviceError, Error, Internal, InvalidArgument, InvalidModel, OutOfMemory, Unsupported)
from ._gpu_tensor import GpuTensor
from ._jit import jit
from ._model import Model, TensorInfo
from ._options import option_keys
from ._tensor import from_bf16, to_bf16

__version__ = _library.version()
__all__ = ["Builder", "Cancelled", "CompileFailed", "DeviceError", "Engine", "Error", "GpuTensor", "Internal", "InvalidArgument", "InvalidModel", "Model",
           "OutOfMemory", "Session", "TensorInfo", "Unsupported", "Value", "compile", "devices", "from_bf16", "jit", "load",
           "option_keys", "register_call", "to_bf16"]

_log.install()

# SPDX-License-Identifier: Apache-2.0
"""Models: from ONNX or a Builder."""
import os
from ctypes import c_char_p
from typing import NamedTuple

from . import _cuda, _host, _library, _options, _tensor
from ._structs import Tensor


class TensorInfo(NamedTuple):
    """An input or output. An extent is a number, or the text of an expression over symbols."""

    name: str
    dtype: str
    shape: tuple

    @property
    def numpy_dtype(self):
        """The dtype of its NumPy arrays; uint16 for bf16, which holds the bits."""
        return _tensor.NUMPY[self.dtype]


def infos(members):
    return tuple(TensorInfo(m["name"], m["dtype"], tuple(m["shape"])) for m in members)


class Model:
    """A model that is not compiled. Made by load_onnx, load_onnx_bytes or Builder.finish."""

    def __init__(self, handle):
        if not isinstance(handle, _library.Handle):
            raise TypeError("a Model is made by Model.load_onnx, Model.load_onnx_bytes or Builder.finish")
        self._handle = handle
        io = _library.read_json("model_io_json", handle.value)
        self.inputs, self.outputs, self.symbols = infos(io["inputs"]), infos(io["outputs"]), tuple(io["symbols"])

    @classmethod
    def load_onnx(cls, path, **options):
        """Reads an ONNX file, and tensor data that lies in files beside it."""
        (imports,) = _options.split(options, "import")
        handle = _options.make(imports)
        return cls(_library.Handle("model", _library.make("model_load_onnx", os.fsencode(path), _options.value(handle))))

    @classmethod
    def load_onnx_bytes(cls, data, constants=None, **options):
        """Reads an ONNX model from memory. `constants` gives inputs a fixed content: {"name": array}."""
        (imports,) = _options.split(options, "import")
        handle = _options.make(imports)
        names = list(constants or {})
        arguments = [_tensor.read(constants[name], f"constant '{name}'") for name in names]
        c_names = (c_char_p * len(names))(*(name.encode() for name in names))
        c_tensors = (Tensor * len(names))(*(argument.tensor for argument in arguments))
        data = bytes(data)
        return cls(_library.Handle("model", _library.make("model_load_onnx_bytes", data, len(data), c_names, c_tensors, len(names),
                                                          _options.value(handle))))

    def save(self, path, targets=("cpu:native",), progress=None, **options):
        """Compiles for each target ("cpu:native", "cpu:x86-64-v3", "cuda:sm_90") and writes one package, a file .fsc. Needs no device."""
        compiles, writes = _options.split(options, "compile", "write")
        targets = [targets] if isinstance(targets, str) else list(targets)
        _cuda.prepare(*targets)
        told = _host.Progress(progress)
        handle = _options.make({**compiles, **writes}, told)
        c_targets = (c_char_p * len(targets))(*(target.encode() for target in targets))
        told.run(lambda: _library.call("compile_package", self._handle.value, c_targets, len(targets), os.fsencode(path), handle.value))

    def __repr__(self):
        return f"fusec.Model({describe(self)})"


def describe(io):
    def side(members):
        return ", ".join(f"{m.name}: {m.dtype}[{', '.join(map(str, m.shape))}]" for m in members)
    return f"{side(io.inputs)} -> {side(io.outputs)}"

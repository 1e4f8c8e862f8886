# SPDX-License-Identifier: Apache-2.0
"""Models without ONNX: each op of the library is a method of Builder, and of Value for its first argument."""
import numbers
from ctypes import byref, c_int32

import numpy

from . import _library, _tensor
from ._errors import InvalidArgument
from ._model import Model
from ._ops import BuilderOps, ValueOps


def _extent(value):
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, str):
        return value.replace(" ", "")  # "2 * n"
    raise InvalidArgument(f"{value!r} is no extent; an extent is a number or text such as 'n' or '2*n'")


def shape_text(shape):
    """[n, 64] from ("n", 64), from "n" or from 64."""
    if isinstance(shape, str) and shape.strip().startswith("["):
        return shape
    items = [shape] if isinstance(shape, (str, numbers.Integral)) else shape
    return f"[{', '.join(map(_extent, items))}]"


def _attribute(op, name, value):
    if name in ("to", "dtype"):  # of kind dtype in all ops
        return _tensor.dtype_name(value)
    if (op, name) in (("custom_call", "name"), ("custom_call", "attributes")):  # texts
        return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, (bool, numpy.bool_)):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return shape_text(value)
    if isinstance(value, (str, numbers.Integral)):
        return _extent(value)
    if isinstance(value, numbers.Real):
        return repr(float(value))
    raise InvalidArgument(f"attribute '{name}' of {op} is a {type(value).__name__}; an attribute is a number, True or False, text, a dtype, or a "
                          "list of extents")


class Value(ValueOps):
    """An input, a constant or the result of an op. + - * / % ** @ - abs() < <= > >= & | ^ ~ << >> are ops; == compares handles, and .eq
    values."""

    __slots__ = ("builder", "index", "_info")
    __array_ufunc__ = None  # array + value is Value.__radd__

    def __init__(self, builder, index):
        self.builder, self.index, self._info = builder, index, None

    def _read_info(self):
        if self._info is None:
            self._info = _library.read_json("builder_value_json", self.builder._handle.value, self.index)
        return self._info

    @property
    def dtype(self):
        return self._read_info()["dtype"]

    @property
    def shape(self):
        return tuple(self._read_info()["shape"])

    @property
    def ndim(self):
        return len(self._read_info()["shape"])

    def __repr__(self):
        return f"fusec.Value({self.dtype}[{', '.join(map(str, self.shape))}])"

    def __bool__(self):
        raise TypeError("a Value has no contents while a model is built; use .where() to choose between values")

    def _bits(self, op, other):
        name = f"{op}_" if self.dtype == "bool" else f"bit_{op}"
        return self.builder.op(name, self, other)

    def __and__(self, other):
        return self._bits("and", other)

    def __or__(self, other):
        return self._bits("or", other)

    def __xor__(self, other):
        return self._bits("xor", other)

    def __invert__(self):
        return self.builder.op("not_" if self.dtype == "bool" else "bit_not", self)

    def __neg__(self):
        return self.builder.op("neg", self)

    def __abs__(self):
        return self.builder.op("abs", self)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__


def _operator(op, swap=False):
    if swap:
        return lambda self, other: self.builder.op(op, other, self)
    return lambda self, other: self.builder.op(op, self, other)


for _python, _op in {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "mod": "mod", "pow": "pow", "matmul": "matmul",
                     "lshift": "shl", "rshift": "shr"}.items():
    setattr(Value, f"__{_python}__", _operator(_op))
    setattr(Value, f"__r{_python}__", _operator(_op, swap=True))
for _op in ("lt", "le", "gt", "ge"):
    setattr(Value, f"__{_op}__", _operator(_op))


class Builder(BuilderOps):
    """Builds a Model op by op. For one thread at a time."""

    def __init__(self):
        self._handle = _library.Handle("builder", _library.make("builder_new"))

    def _value(self, function, *arguments):
        out = c_int32()
        _library.call(function, self._handle.value, *arguments, byref(out))
        return Value(self, out.value)

    def input(self, name, dtype, shape):
        """An input, such as input("x", "f32", ["n", 64]). A name in the shape is a symbol, which takes its value when the engine runs."""
        return self._value("builder_input", name.encode(), _tensor.dtype_name(dtype).encode(), shape_text(shape).encode())

    def range(self, symbol, least, most=None):
        """The values that a symbol may have, both included: kernels may rely on them, and a run with another value is refused."""
        _library.call("builder_range", self._handle.value, symbol.encode(), least, -1 if most is None else most)

    def scalar(self, dtype, value):
        """A constant of rank 0, rounded to the dtype."""
        return self._value("builder_scalar", _tensor.dtype_name(dtype).encode(), float(value))

    def constant(self, array, dtype=None):
        """A constant with the contents of an array, which are copied. dtype="bf16" reads a uint16 array as bits."""
        argument = _tensor.read(array, "the constant", None if dtype is None else _tensor.dtype_name(dtype))
        return self._value("builder_constant", _tensor.pointer(argument))

    def weight(self, name, array, dtype=None):
        """A constant with a name, under which Engine.set_weight replaces it where the option replaceable_weights says so."""
        argument = _tensor.read(array, f"weight '{name}'", None if dtype is None else _tensor.dtype_name(dtype))
        return self._value("builder_weight", name.encode(), _tensor.pointer(argument))

    def op(self, op, *arguments, **attributes):
        """The op by its name. Numbers among the arguments take the dtype of the first Value, arrays are constants."""
        like = next((a for a in arguments if isinstance(a, Value)), None)
        values = [self._argument(op, a, like) for a in arguments]
        indices = (c_int32 * len(values))(*(value.index for value in values))
        text = " ".join(f"{name}={_attribute(op, name, value)}" for name, value in attributes.items() if value is not None)
        return self._value("builder_op", op.encode(), indices, len(values), text.encode())

    def gradients(self, y, wrt, dy=None):
        """The gradients of y by each Value of a list: of the sum of y * dy, each with the dtype and shape of its wrt, zeros where y does not
        depend on it. dy has the dtype and shape of y; without it y has one element, and dy is 1."""
        for item in (y, *wrt):
            if not isinstance(item, Value) or item.builder is not self:
                raise InvalidArgument(f"gradients: {item!r} is no Value of this Builder")
        scale = -1 if dy is None else self._argument("gradients", dy, y).index
        given = (c_int32 * len(wrt))(*(value.index for value in wrt))
        _library.call("builder_gradients", self._handle.value, y.index, scale, given, len(wrt), given)
        return [Value(self, index) for index in given]

    def _argument(self, op, item, like):
        if isinstance(item, Value):
            if item.builder is not self:
                raise InvalidArgument(f"an argument of {op} belongs to another Builder")
            return item
        if isinstance(item, numbers.Real) and like is not None:
            if like.dtype[0] in "iu" and not float(item).is_integer():
                raise InvalidArgument(f"{op} of a value of dtype {like.dtype} and {item!r}, which is no integer; cast the value first")
            return self.scalar(like.dtype, item)
        if isinstance(item, numpy.ndarray) or hasattr(item, "__dlpack__"):
            return self.constant(item)
        raise InvalidArgument(f"an argument of {op} is a {type(item).__name__}; it is a Value, an array, or a number beside a Value (attributes "
                              "are given by name)")

    def output(self, name, value):
        """Makes a value an output of the model."""
        if not isinstance(value, Value) or value.builder is not self:
            raise InvalidArgument(f"output '{name}' is no Value of this Builder")
        _library.call("builder_output", self._handle.value, name.encode(), value.index)

    def finish(self):
        """The Model so far. The builder may go on."""
        return Model(_library.Handle("model", _library.make("builder_finish", self._handle.value), self._handle.keep))

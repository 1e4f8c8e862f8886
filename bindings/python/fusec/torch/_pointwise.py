# SPDX-License-Identifier: Apache-2.0
"""Handlers of elementwise ops."""
import math
import numbers

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND
from torch._prims_common import elementwise_dtypes

from . import _dtypes
from ._lowering import find_overload, handles, meta
from ._refused import Refused

_UNARY = {  # aten: fusec; the argument is cast to the dtype of the result
    "abs": "abs", "neg": "neg", "sqrt": "sqrt", "rsqrt": "rsqrt", "reciprocal": "recip", "exp": "exp",
    "expm1": "expm1", "log": "log", "log1p": "log1p", "tanh": "tanh", "sigmoid": "sigmoid", "erf": "erf", "sin": "sin", "cos": "cos",
    "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh", "asinh": "asinh", "acosh": "acosh",
    "atanh": "atanh", "relu": "relu", "silu": "silu", "mish": "mish", "hardswish": "hard_swish", "square": "square",
}
_ROUNDING = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "round"}  # of integers: nothing
_BINARY = {"maximum": "max", "minimum": "min", "fmod.Tensor": "fmod", "fmod.Scalar": "fmod",
           "remainder.Tensor": "mod", "remainder.Scalar": "mod"}
_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
_BITS = {"and": "and", "or": "or", "xor": "xor"}


def fitting(c, node, values, dtypes):
    """The arguments of a node as values of these dtypes, with extents of the result."""
    made = []
    for item, value, dtype in zip(node.args, values, dtypes):
        value = c.as_value(value, dtype)
        if isinstance(item, torch.fx.Node) and isinstance(meta(item), torch.Tensor):
            value = c.renamed(value, meta(item).shape, meta(node).shape)
        made.append(value)
    return made


def _binary_op(c, node, op, a, b):
    dtype = c.dtype(node)
    return c.builder.op(op, *fitting(c, node, (a, b), (dtype, dtype)))


def common_dtype(node, *arguments):
    """The dtype in which torch compares these arguments of a node."""
    metas = [a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in arguments]
    return _dtypes.name(elementwise_dtypes(*metas, type_promotion_kind=KIND.DEFAULT)[1])


def _register():
    def unary(op):
        return lambda c, node, x: c.builder.op(op, c.as_value(x, c.dtype(node)))

    def rounding(op):
        return lambda c, node, x: c.builder.op(op, x) if x.dtype[0] in "fb" and x.dtype != "bool" else x

    def binary(op):
        return lambda c, node, a, b: _binary_op(c, node, op, a, b)

    def compare(op):
        def handler(c, node, a, b):
            dtype = common_dtype(node, *node.args)
            if dtype == "bool":  # compared as numbers
                dtype = "u8"
            return c.builder.op(op, *fitting(c, node, (a, b), (dtype, dtype)))
        return handler

    def bits(op):
        def handler(c, node, a, b):
            dtype = c.dtype(node)
            return _binary_op(c, node, f"{op}_" if dtype == "bool" else f"bit_{op}", a, b)
        return handler

    def logical(op):
        return lambda c, node, a, b: _binary_op(c, node, f"{op}_", a, b)

    for name, op in _UNARY.items():
        handles(name)(unary(op))
    for name, op in _ROUNDING.items():
        handles(name)(rounding(op))
    for name, op in _BINARY.items():
        handles(name)(binary(op))
    for op in _COMPARE:
        handles(f"{op}.Tensor", f"{op}.Scalar")(compare(op))
    for name, op in _BITS.items():
        handles(f"bitwise_{name}.Tensor", f"bitwise_{name}.Scalar", f"__{name}__.Tensor", f"__{name}__.Scalar")(bits(op))
        handles(f"logical_{name}")(logical(op))


_register()


@handles("mul.Tensor", "mul.Scalar")
def _mul(c, node, a, b):
    return _binary_op(c, node, "and_" if c.dtype(node) == "bool" else "mul", a, b)


@handles("sign", "sgn")
def _sign(c, node, x):
    made = c.builder.sign(x)
    return c.builder.where(c.builder.is_nan(x), c.number(x.dtype, 0), made) if x.dtype[0] in "fb" else made


@handles("add.Tensor", "add.Scalar")
def _add(c, node, a, b, alpha=1):
    if c.dtype(node) == "bool":
        return c.builder.or_(c.as_value(a, "bool"), c.as_value(b, "bool"))
    return _binary_op(c, node, "add", a, _scaled(c, node, b, alpha))


@handles("sub.Tensor", "sub.Scalar")
def _sub(c, node, a, b, alpha=1):
    return _binary_op(c, node, "sub", a, _scaled(c, node, b, alpha))


@handles("rsub.Tensor", "rsub.Scalar")
def _rsub(c, node, a, b, alpha=1):
    dtype = c.dtype(node)
    a, b = fitting(c, node, (_scaled(c, node, a, alpha), b), (dtype, dtype))
    return c.builder.sub(b, a)


def _scaled(c, node, b, alpha):
    dtype = c.dtype(node)
    return b if alpha == 1 else c.builder.mul(c.as_value(b, dtype), c.as_value(alpha, dtype))


@handles("div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode", "true_divide.Tensor", "true_divide.Scalar")
def _div(c, node, a, b, rounding_mode=None):
    dtype = c.dtype(node)
    a, b = fitting(c, node, (a, b), (dtype, dtype))
    if rounding_mode is None:
        return c.builder.div(a, b)
    if dtype[0] in "iu":
        quotient = c.builder.div(a, b)  # truncates
        if rounding_mode == "trunc" or dtype[0] == "u":
            return quotient
        rest = c.builder.sub(a, c.builder.mul(quotient, b))
        zero, one = c.number(dtype, 0), c.number(dtype, 1)
        lower = c.builder.and_(c.builder.ne(rest, zero), c.builder.xor_(c.builder.lt(rest, zero), c.builder.lt(b, zero)))
        return c.builder.where(lower, c.builder.sub(quotient, one), quotient)
    if rounding_mode == "trunc":
        return c.builder.trunc(c.builder.div(a, b))
    # As torch: exact for quotients that the division rounds up to the next integer.
    rest = c.builder.mod(a, b)
    return c.builder.round(c.builder.div(c.builder.sub(a, rest), b))


@handles("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def _pow(c, node, a, b):
    dtype = c.dtype(node)
    if isinstance(b, numbers.Real):
        x = c.as_value(a, dtype)
        if b == 2:
            return c.builder.square(x)
        if b == 1:
            return x
        if b == 0.5:
            return c.builder.sqrt(x)
        if b == 3:
            return c.builder.mul(c.builder.square(x), x)
    return _binary_op(c, node, "pow", a, b)


@handles("where.self", "where.ScalarSelf", "where.ScalarOther")
def _where(c, node, condition, a, b):
    dtype = c.dtype(node)
    return c.builder.where(*fitting(c, node, (condition, a, b), ("bool", dtype, dtype)))


@handles("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(c, node, x, mask, value):
    return c.builder.where(mask, c.as_value(value, x.dtype), x)


@handles("clamp", "clamp.Tensor", "hardtanh", "clamp_min", "clamp_min.Tensor")
def _clamp(c, node, x, min=None, max=None, **named):
    if node.target is find_overload("hardtanh.default"):
        min, max = (-1 if min is None else min), (1 if max is None else max)
    min, max = named.get("min_val", min), named.get("max_val", max)
    x = c.as_value(x, c.dtype(node))
    if min is not None:
        x = c.builder.max(x, c.as_value(min, x.dtype))
    return x if max is None else c.builder.min(x, c.as_value(max, x.dtype))


@handles("clamp_max", "clamp_max.Tensor")
def _clamp_max(c, node, x, max):
    return _clamp(c, node, x, None, max)


@handles("logical_not", "bitwise_not")
def _not(c, node, x):
    if node.target is find_overload("logical_not.default"):
        x = c.as_value(x, "bool")
    return c.builder.op("not_" if x.dtype == "bool" else "bit_not", x)


@handles("isnan")
def _isnan(c, node, x):
    return c.builder.is_nan(x) if x.dtype[0] == "f" or x.dtype == "bf16" else c.full("bool", 0, x.shape)


@handles("isinf")
def _isinf(c, node, x):
    return c.builder.eq(c.builder.abs(x), c.number(x.dtype, math.inf))


@handles("gelu")
def _gelu(c, node, x, approximate="none"):
    return c.builder.op("gelu_tanh" if approximate == "tanh" else "gelu", x)


@handles("leaky_relu")
def _leaky_relu(c, node, x, negative_slope=0.01):
    return c.builder.leaky_relu(x, c.number(x.dtype, negative_slope))


@handles("hardsigmoid")
def _hardsigmoid(c, node, x):
    return c.builder.hard_sigmoid(x, c.number(x.dtype, 1 / 6), c.number(x.dtype, 0.5))


@handles("elu")
def _elu(c, node, x, alpha=1, scale=1, input_scale=1):
    if input_scale != 1:
        raise Refused("elu with an input scale")
    if scale != 1:
        return c.builder.selu(x, c.number(x.dtype, alpha), c.number(x.dtype, scale))
    return c.builder.elu(x, c.number(x.dtype, alpha))


@handles("softplus")
def _softplus(c, node, x, beta=1, threshold=20):
    b = c.number(x.dtype, beta)
    scaled = c.builder.mul(x, b) if beta != 1 else x
    made = c.builder.softplus(scaled)
    made = c.builder.div(made, b) if beta != 1 else made
    return c.builder.where(c.builder.gt(scaled, c.number(x.dtype, threshold)), x, made)


@handles("log2")
def _log2(c, node, x):
    return c.builder.mul(c.builder.log(c.as_value(x, c.dtype(node))), c.number(c.dtype(node), 1 / math.log(2)))


@handles("exp2")
def _exp2(c, node, x):
    return c.builder.pow(c.number(c.dtype(node), 2), c.as_value(x, c.dtype(node)))


@handles("erfc")
def _erfc(c, node, x):
    return c.builder.sub(c.number(x.dtype, 1), c.builder.erf(x))


@handles("addcmul")
def _addcmul(c, node, x, a, b, value=1):
    dtype = c.dtype(node)
    product = c.builder.mul(c.as_value(a, dtype), c.as_value(b, dtype))
    return c.builder.add(c.as_value(x, dtype), product if value == 1 else c.builder.mul(product, c.number(dtype, value)))


@handles("clone", "alias", "detach", "lift_fresh_copy", "lift", "contiguous")
def _same(c, node, x, **_):
    return x


@handles("copy")
def _copy(c, node, x, source, non_blocking=False):
    return c.broadcast(c.cast(source, c.dtype(node)), c.shape(node))


@handles("_to_copy", "prims.convert_element_type.default", "to.dtype", "type_as", "prims.device_put.default")
def _to_copy(c, node, x, *_, **__):
    fake = meta(node.args[0])
    if fake.device != meta(node).device:
        raise Refused(f"a copy from {fake.device} to {node.meta['val'].device}")
    return c.cast(x, c.dtype(node))


@handles("full", "full_like", "zeros_like", "ones_like", "zeros", "ones", "scalar_tensor", "new_full", "new_zeros", "new_ones",
         "empty.memory_format", "empty_like", "new_empty", "empty_permuted", "fill.Scalar")
def _full(c, node, *arguments, **named):
    packet = str(node.target).split(".")[1]
    if packet in ("full", "full_like", "fill"):
        value = arguments[1] if len(arguments) > 1 else named["fill_value"]
    elif packet == "new_full":
        value = arguments[2]
    elif packet == "scalar_tensor":
        value = arguments[0]
    else:
        value = 1 if "ones" in packet else 0
    return c.full(c.dtype(node), value, c.shape(node))


@handles("fill.Tensor")
def _fill(c, node, x, value):
    return c.full(c.dtype(node), value, c.shape(node))

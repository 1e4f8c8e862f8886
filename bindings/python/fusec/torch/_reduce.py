# SPDX-License-Identifier: Apache-2.0
"""Handlers of reductions, scans and selections along axes."""
import math

from . import _dims
from ._moves import axis_of
from ._lowering import handles, meta
from ._refused import Refused


def axes_of(dims, x):
    """All axes for None and []."""
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return list(range(x.ndim))
    return sorted(axis_of(d, x) for d in ([dims] if isinstance(dims, int) else dims))


def _reduction(op):
    def handler(c, node, x, dims=None, keepdim=False, dtype=None):
        x = c.as_value(x, c.dtype(node))
        axes = axes_of(dims, x)
        return c.builder.op(op, x, axes=axes, keep=keepdim) if axes else x
    return handler


handles("sum.dim_IntList", "sum")(_reduction("reduce_sum"))
handles("mean.dim", "mean")(_reduction("reduce_mean"))
handles("amax")(_reduction("reduce_max"))
handles("amin")(_reduction("reduce_min"))


@handles("max", "min")
def _extreme(c, node, x):
    return c.builder.op("reduce_max" if "max" in str(node.target) else "reduce_min", x, axes=axes_of(None, x))


@handles("prod", "prod.dim_int")
def _prod(c, node, x, dim=None, keepdim=False, dtype=None):
    axes = axes_of(dim if isinstance(dim, int) else None, x)
    return c.builder.reduce_prod(c.as_value(x, c.dtype(node)), axes=axes, keep=bool(keepdim))


@handles("any", "any.dim", "any.dims")
def _any(c, node, x, dim=None, keepdim=False):
    return _boolean(c, "reduce_max", x, dim, keepdim)


@handles("all", "all.dim", "all.dims")
def _all(c, node, x, dim=None, keepdim=False):
    return _boolean(c, "reduce_min", x, dim, keepdim)


def _boolean(c, op, x, dim, keepdim):
    counted = c.cast(c.as_value(x, "bool"), "i32")
    axes = axes_of(dim, x)
    return c.cast(c.builder.op(op, counted, axes=axes, keep=keepdim) if axes else counted, "bool")


def _moments(c, x, axes, correction, count):
    """(variance, mean), both with extents of 1."""
    mean = c.builder.reduce_mean(x, axes=axes, keep=True)
    squares = c.builder.square(c.builder.sub(x, mean))
    if correction == 0:
        return c.builder.reduce_mean(squares, axes=axes, keep=True), mean
    free = c.as_value(_dims.text(count - correction), x.dtype)
    return c.builder.div(c.builder.reduce_sum(squares, axes=axes, keep=True), free), mean


def _count(node, axes):
    return math.prod([_dims.expression(meta(node.args[0]).shape[a]) for a in axes], start=_dims.expression(1))


@handles("var_mean.correction", "var.correction")
def _var(c, node, x, dim=None, correction=1, keepdim=False):
    axes = axes_of(dim, x)
    correction = 1 if correction is None else correction
    if correction != int(correction):
        raise Refused("a variance with a correction that is not whole")
    pair = "var_mean" in str(node.target)
    variance, mean = _moments(c, x, axes, int(correction), _count(node, axes))
    if not pair:
        return c.reshape(variance, c.shape(node))
    return c.reshape(variance, c.shape(node, 0)), c.reshape(mean, c.shape(node, 1))


@handles("linalg_vector_norm")
def _vector_norm(c, node, x, ord=2, dim=None, keepdim=False, dtype=None):
    x, axes = c.as_value(x, c.dtype(node)), axes_of(dim, x)
    if ord == 2:
        return c.builder.sqrt(c.builder.reduce_sum(c.builder.square(x), axes=axes, keep=keepdim))
    if ord == 1:
        return c.builder.reduce_sum(c.builder.abs(x), axes=axes, keep=keepdim)
    if ord == math.inf:
        return c.builder.reduce_max(c.builder.abs(x), axes=axes, keep=keepdim)
    raise Refused(f"a norm of order {ord}")


@handles("argmax", "argmin")
def _argmax(c, node, x, dim=None, keepdim=False):
    op = "argmax" if "argmax" in str(node.target) else "argmin"
    if dim is None:
        count = _dims.text(_count(node, range(x.ndim)))
        return c.reshape(c.builder.op(op, c.reshape(x, [count]), axis=0), c.shape(node))
    return c.reshape(c.builder.op(op, x, axis=axis_of(dim, x)), c.shape(node))


@handles("max.dim", "min.dim")
def _max_dim(c, node, x, dim, keepdim=False):
    axis, most = axis_of(dim, x), str(node.target).startswith("aten.max")
    values = c.builder.op("reduce_max" if most else "reduce_min", x, axes=[axis], keep=keepdim)
    indices = c.builder.op("argmax" if most else "argmin", x, axis=axis) if c.used(node, 1) else None
    return values, indices if indices is None else c.reshape(indices, c.shape(node, 1))


@handles("topk")
def _topk(c, node, x, k, dim=-1, largest=True, sorted=True):
    indices = c.builder.topk(x, k=k, axis=axis_of(dim, x), largest=largest)
    return c.builder.gather_elements(x, indices, axis=axis_of(dim, x)), indices


@handles("sort", "sort.stable")
def _sort(c, node, x, *arguments, dim=-1, descending=False, stable=None):
    if arguments and "stable" not in str(node.target):
        dim, descending = (*arguments, descending)[:2]
    axis = axis_of(dim, x)
    indices = c.builder.topk(x, k=x.shape[axis], axis=axis, largest=descending)
    return c.builder.gather_elements(x, indices, axis=axis), indices


@handles("cumsum")
def _cumsum(c, node, x, dim, dtype=None):
    x = c.as_value(x, c.dtype(node))
    return c.builder.cumsum(x, axis=axis_of(dim, x)) if x.ndim else x


@handles("_softmax", "softmax.int", "_log_softmax", "log_softmax.int")
def _softmax(c, node, x, dim, half_to_float=False, dtype=None):
    x = c.cast(x, c.dtype(node))
    op = "log_softmax" if "log" in str(node.target) else "softmax"
    return c.builder.op(op, x, axis=axis_of(dim, x)) if x.ndim else c.full(x.dtype, 0 if "log" in op else 1, [])

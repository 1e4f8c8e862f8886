# SPDX-License-Identifier: Apache-2.0
"""Handlers of ops that read and write at places given by tensors, and of resizing."""
import torch

from . import _dims
from ._moves import axis_of, part
from ._lowering import handles, meta
from ._refused import Refused


@handles("embedding")
def _embedding(c, node, weight, indices, *_):
    return c.builder.gather(weight, indices, axis=0)


@handles("index_select")
def _index_select(c, node, x, dim, indices):
    return c.builder.gather(x, indices, axis=axis_of(dim, x))


@handles("gather")
def _gather(c, node, x, dim, indices, sparse_grad=False):
    return c.builder.gather_elements(x, indices, axis=axis_of(dim, x))


def _joined(c, indices):
    """Index tensors, broadcast to one shape, as the rows of one: (tensor [..., n], the shape without n)."""
    fakes = [meta(i) for i in indices]
    shape = _dims.texts(torch.broadcast_shapes(*[tuple(f.shape) for f in fakes]))
    values = [c.cast(c.argument(i), "i64") for i in indices]
    rows = [c.reshape(c.broadcast(v, shape), [*shape, 1]) for v in values]
    return (rows[0] if len(rows) == 1 else c.builder.concat(*rows, axis=len(shape))), shape


def _axes_of(indices):
    axes = [i for i, index in enumerate(indices) if index is not None]
    for i in axes:
        if meta(indices[i]).dtype in (torch.bool, torch.uint8):
            raise Refused("an index that is a mask")
    return axes


@handles("index.Tensor", "_unsafe_index.Tensor")
def _index(c, node, x, _indices):
    indices = node.args[1]
    axes = _axes_of(indices)
    if len(axes) == 1:
        return c.builder.gather(x, c.argument(indices[axes[0]]), axis=axes[0])
    others = [a for a in range(x.ndim) if a not in axes]
    rows, shape = _joined(c, [indices[a] for a in axes])
    made = c.builder.gather_nd(c.transpose(x, [*axes, *others]), rows)
    if axes != list(range(axes[0], axes[-1] + 1)):
        return made  # indices that are apart: their axes come first
    n, before = len(shape), axes[0]
    return c.transpose(made, [*range(n, n + before), *range(n), *range(n + before, made.ndim)])


@handles("index_put", "_unsafe_index_put")
def _index_put(c, node, x, _indices, values, accumulate=False):
    indices = node.args[1]
    axes = [i for i, index in enumerate(indices) if index is not None]
    if len(axes) == 1 and meta(indices[axes[0]]).dtype == torch.bool and not meta(node.args[2]).dim() and not accumulate:
        mask = c.argument(indices[axes[0]])
        if axes[0] == 0:
            return c.builder.where(c.reshape(mask, [*mask.shape, *[1] * (x.ndim - mask.ndim)]), values, x)
    axes = _axes_of(indices)
    others = [a for a in range(x.ndim) if a not in axes]
    if len(axes) > 1 and axes != list(range(axes[0], axes[-1] + 1)) and axes[0] != 0:
        raise Refused("index_put at axes that are apart")
    perm = [*axes, *others]
    rows, shape = _joined(c, [indices[a] for a in axes])
    n, before = len(shape), axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    rest = [x.shape[a] for a in others]
    full = c.broadcast(c.cast(values, x.dtype), [*rest[:before], *shape, *rest[before:]])
    updates = c.transpose(full, [*range(before, before + n), *range(before), *range(before + n, full.ndim)])
    made = c.builder.scatter_nd(c.transpose(x, perm), rows, updates, reduction="add" if accumulate else "none")
    return c.transpose(made, [perm.index(a) for a in range(x.ndim)])


@handles("scatter.src", "scatter.value", "scatter_add", "scatter_reduce.two")
def _scatter(c, node, x, dim, index, source, reduce=None, include_self=True):
    name = str(node.target)
    reduction = "add" if "scatter_add" in name else "none"
    if "scatter_reduce" in name:
        known = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
        if reduce not in known or not include_self:
            raise Refused(f"scatter_reduce with {reduce}")
        reduction = known[reduce]
    axis = axis_of(dim, x)
    if "value" in name:
        source = c.full(x.dtype, source, index.shape)
    elif list(source.shape) != list(index.shape):
        source = c.builder.slice(source, starts=[0] * source.ndim, sizes=list(index.shape))
    return c.builder.scatter_elements(x, index, source, axis=axis, reduction=reduction)


def _whole(x, y):
    """x / y where y divides it for all values, else None."""
    quotient = _dims.expression(x) / _dims.expression(y)
    return int(quotient) if quotient.is_Integer else None


@handles("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_nearest1d.vec", "upsample_nearest2d.vec",
         "upsample_nearest3d.vec")
def _nearest(c, node, x, *_):
    """By whole factors: each place is repeated."""
    old, new = meta(node.args[0]).shape[2:], meta(node).shape[2:]
    factors = [_whole(b, a) for a, b in zip(old, new)]
    if None in factors:
        raise Refused("nearest upsampling by a factor that is not whole")
    split, wide = list(x.shape[:2]), list(x.shape[:2])
    for extent, factor in zip(x.shape[2:], factors):
        split += [extent, 1]
        wide += [extent, factor]
    return c.reshape(c.broadcast(c.reshape(x, split), wide), c.shape(node))


@handles("upsample_bilinear2d", "upsample_bilinear2d.vec")
def _bilinear(c, node, x, *arguments, **named):
    align = arguments[1]
    for axis in (2, 3):
        old, new = meta(node.args[0]).shape[axis], meta(node).shape[axis]
        if not isinstance(new, int) or not isinstance(old, int):
            raise Refused("bilinear resizing to a size that is not fixed")
        x = _linear(c, x, axis, old, new, align)
    return x


def _linear(c, x, axis, old, new, align):
    if old == new:
        return x
    place = torch.arange(new, dtype=torch.float32)
    if align:
        place = place * ((old - 1) / (new - 1) if new > 1 else 0.0)
    else:
        place = ((place + 0.5) * (old / new) - 0.5).clamp(min=0)
    low = place.floor().clamp(max=old - 1)
    share = (place - low).numpy()
    shape = [1] * x.ndim
    shape[axis] = new
    below = c.builder.gather(x, c.builder.constant(low.to(torch.int64).numpy()), axis=axis)
    above = c.builder.gather(x, c.builder.constant((low + 1).clamp(max=old - 1).to(torch.int64).numpy()), axis=axis)
    weight = c.cast(c.reshape(c.builder.constant(share), shape), x.dtype)
    return c.builder.add(below, c.builder.mul(c.builder.sub(above, below), weight))


@handles("unfold")
def _unfold(c, node, x, dim, size, step):
    """Windows of an axis, as one slice for each place in the window."""
    axis, count = axis_of(dim, x), c.shape(node)[axis_of(dim, x)]
    if size > 32:
        raise Refused("unfold with windows of more than 32 places")
    shape = [*c.shape(node)[:-1], 1]
    return c.builder.concat(*[c.reshape(part(c, x, axis, i, count, step), shape) for i in range(size)], axis=x.ndim)

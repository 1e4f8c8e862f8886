# SPDX-License-Identifier: Apache-2.0
"""Handlers of views, joins, padding and iotas: ops that move elements."""
import math
import numbers

import torch

from . import _dims
from ._layouts import dense_order, inverse, memory_order
from ._lowering import handles, meta
from ._refused import Refused


def axis_of(axis, value):
    return axis + value.ndim if axis < 0 else axis


def _extents(node):
    """The extents of a node's first argument, as torch has them."""
    return list(meta(node.args[0]).shape)


def part(c, value, axis, start, size, step=1):
    """Some of the places along an axis."""
    starts, sizes, steps = [0] * value.ndim, list(value.shape), [1] * value.ndim
    starts[axis], sizes[axis], steps[axis] = start, size, step
    if step == 1 and start == 0 and size == value.shape[axis]:
        return value
    return c.builder.slice(value, starts=starts, sizes=sizes, steps=steps)


@handles("view", "_unsafe_view", "reshape", "_reshape_copy", "unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims", "view_copy",
         "flatten.using_ints")
def _reshape(c, node, x, *_):
    return c.reshape(x, c.shape(node))


@handles("expand", "expand_copy")
def _expand(c, node, x, *_, **__):
    return c.broadcast(x, c.shape(node))


@handles("repeat")
def _repeat(c, node, x, repeats):
    shape = c.shape(node)
    extents = [1] * (len(shape) - x.ndim) + list(x.shape)
    inner = [e for extent in extents for e in (1, extent)]
    outer = [e for count, extent in zip(repeats, extents) for e in (count, extent)]
    return c.reshape(c.broadcast(c.reshape(x, inner), outer), shape)


@handles("permute", "permute_copy")
def _permute(c, node, x, dims):
    return c.transpose(x, [axis_of(d, x) for d in dims])


@handles("transpose.int", "transpose_copy.int")
def _transpose(c, node, x, a, b):
    perm = list(range(x.ndim))
    a, b = axis_of(a, x), axis_of(b, x)
    perm[a], perm[b] = perm[b], perm[a]
    return c.transpose(x, perm)


@handles("t", "t_copy")
def _t(c, node, x):
    return c.transpose(x, list(range(x.ndim))[::-1])


def _index(item, extent):
    """A start that may be negative, as an expression."""
    value = meta(item) if isinstance(item, torch.fx.Node) else item
    hint = value.node.hint if isinstance(value, torch.SymInt) else value
    if hint is None:
        raise Refused("a start that depends on data")
    return _dims.expression(value) + (_dims.expression(extent) if hint < 0 else 0)


@handles("slice.Tensor", "slice_copy.Tensor")
def _slice(c, node, x, dim=0, start=None, end=None, step=1):
    axis = axis_of(dim, x)
    given = node.args[2] if len(node.args) > 2 else node.kwargs.get("start")
    if c.shape(node)[axis] == 0:
        return part(c, x, axis, 0, 0)
    first = 0 if given is None else _index(given, _extents(node)[axis])
    return part(c, x, axis, _dims.text(first), c.shape(node)[axis], step)


@handles("select.int", "select_copy.int")
def _select(c, node, x, dim, index):
    axis = axis_of(dim, x)
    if isinstance(node.args[2], torch.fx.Node) and isinstance(meta(node.args[2]), torch.Tensor):
        raise Refused("a place that depends on data")
    return c.reshape(part(c, x, axis, _dims.text(_index(node.args[2], _extents(node)[axis])), 1), c.shape(node))


@handles("split.Tensor", "split_with_sizes", "split_with_sizes_copy", "chunk", "split_copy.Tensor", "unsafe_split.Tensor")
def _split(c, node, x, _sizes, dim=0):
    axis, start, made = axis_of(dim, x), _dims.expression(0), []
    for fake in meta(node):
        made.append(part(c, x, axis, _dims.text(start), _dims.text(fake.shape[axis])))
        start = start + _dims.expression(fake.shape[axis])
    return made


@handles("unbind.int", "unbind_copy.int")
def _unbind(c, node, x, dim=0):
    axis = axis_of(dim, x)
    return [c.reshape(part(c, x, axis, i, 1), _dims.texts(fake.shape)) for i, fake in enumerate(meta(node))]


@handles("cat", "concat")
def _cat(c, node, tensors, dim=0):
    dtype, rank = c.dtype(node), len(c.shape(node))
    axis, kept = dim if dim >= 0 else dim + rank, []
    for value, item in zip(tensors, node.args[0]):
        if value.ndim != 1 or rank == 1 or value.shape[0] != 0:  # torch lets empty vectors pass
            kept.append(c.cast(c.renamed(value, meta(item).shape, meta(node).shape, skip=axis), dtype))
    return kept[0] if len(kept) == 1 else c.builder.concat(*kept, axis=axis)


@handles("stack")
def _stack(c, node, tensors, dim=0):
    shape = c.shape(node)
    axis = dim if dim >= 0 else dim + len(shape)
    single = shape[:axis] + [1] + shape[axis + 1:]
    return c.builder.concat(*[c.reshape(c.cast(t, c.dtype(node)), single) for t in tensors], axis=axis)


@handles("flip")
def _flip(c, node, x, dims):
    starts, steps = [0] * x.ndim, [1] * x.ndim
    for dim in dims:
        axis = axis_of(dim, x)
        starts[axis], steps[axis] = _dims.text(_dims.expression(_extents(node)[axis]) - 1), -1
    return c.builder.slice(x, starts=starts, sizes=list(x.shape), steps=steps)


def _pads(x, pads):
    """(before, after) of torch's list, which begins at the last axis. Negative ones cut."""
    before, after = [0] * x.ndim, [0] * x.ndim
    for i in range(len(pads) // 2):
        before[x.ndim - 1 - i], after[x.ndim - 1 - i] = pads[2 * i], pads[2 * i + 1]
    return before, after


def _cut(c, node, x, before, after):
    """Cuts what negative pads say; answers the rest, and the pads without them."""
    if any(not isinstance(p, numbers.Integral) for p in before + after) or min(before + after, default=0) >= 0:
        return x, before, after
    extents = [_dims.expression(e) for e in _extents(node)]
    starts = [-min(b, 0) for b in before]
    sizes = [_dims.text(e + min(b, 0) + min(a, 0)) for e, b, a in zip(extents, before, after)]
    x = c.builder.slice(x, starts=starts, sizes=sizes)
    return x, [max(b, 0) for b in before], [max(a, 0) for a in after]


@handles("constant_pad_nd")
def _constant_pad(c, node, x, pads, value=0):
    x, before, after = _cut(c, node, x, *_pads(x, pads))
    return c.builder.pad(x, c.as_value(value, x.dtype), before=before, after=after)


@handles("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def _reflection_pad(c, node, x, pads):
    before, after = _pads(x, pads)
    return c.builder.pad_mode(x, before=before, after=after, mode="reflect")


@handles("replication_pad1d", "replication_pad2d", "replication_pad3d")
def _replication_pad(c, node, x, pads):
    before, after = _pads(x, pads)
    return c.builder.pad_mode(x, before=before, after=after, mode="edge")


@handles("arange.start_step", "arange.start", "arange", "prims.iota.default")
def _arange(c, node, *arguments, **named):
    packet = str(node.target)
    if packet.startswith("prims"):
        start, step = named["start"], named["step"]
    elif len(arguments) == 1:
        start, step = 0, 1
    else:
        start, step = arguments[0], (arguments[2] if len(arguments) > 2 else 1)
    dtype = c.dtype(node)
    whole = dtype[0] in "iu"
    value = c.builder.iota(dtype="i64" if whole else dtype, shape=c.shape(node), axis=0)
    if step != 1:
        value = c.builder.mul(value, c.as_value(step, value.dtype))
    if start != 0:
        value = c.builder.add(value, c.as_value(start, value.dtype))
    return c.cast(value, dtype)


@handles("slice_scatter")
def _slice_scatter(c, node, x, source, dim=0, start=None, end=None, step=1):
    axis = axis_of(dim, x)
    if step != 1:
        raise Refused("slice_scatter with a step")
    given = node.args[3] if len(node.args) > 3 else node.kwargs.get("start")
    extents = _extents(node)
    first = _dims.expression(0) if given is None else _index(given, extents[axis])
    size = _dims.expression(meta(node.args[1]).shape[axis])
    last = first + size
    pieces = [source]
    if first != 0:
        pieces.insert(0, part(c, x, axis, 0, _dims.text(first)))
    rest = _dims.expression(extents[axis]) - last
    if rest != 0:
        pieces.append(part(c, x, axis, _dims.text(last), _dims.text(rest)))
    return c.cast(pieces[0], x.dtype) if len(pieces) == 1 else c.builder.concat(*[c.cast(p, x.dtype) for p in pieces], axis=axis)


@handles("select_scatter")
def _select_scatter(c, node, x, source, dim, index):
    axis = axis_of(dim, x)
    extents = _extents(node)
    first = _index(node.args[3], extents[axis])
    single = list(x.shape)
    single[axis] = 1
    pieces = [c.reshape(c.cast(source, x.dtype), single)]
    if first != 0:
        pieces.insert(0, part(c, x, axis, 0, _dims.text(first)))
    rest = _dims.expression(extents[axis]) - first - 1
    if rest != 0:
        pieces.append(part(c, x, axis, _dims.text(first + 1), _dims.text(rest)))
    return pieces[0] if len(pieces) == 1 else c.builder.concat(*pieces, axis=axis)


def triangle(c, x, diagonal, keep_lower):
    rows, columns = x.shape[-2:]
    row = c.builder.iota(dtype="i64", shape=[rows, columns], axis=0)
    column = c.builder.iota(dtype="i64", shape=[rows, columns], axis=1)
    edge = c.builder.add(row, c.as_value(diagonal, "i64"))
    keep = c.builder.op("le" if keep_lower else "ge", column, edge)
    return c.builder.where(keep, x, c.number(x.dtype, 0))


@handles("tril")
def _tril(c, node, x, diagonal=0):
    return triangle(c, x, diagonal, True)


@handles("triu")
def _triu(c, node, x, diagonal=0):
    return triangle(c, x, diagonal, False)


@handles("as_strided")
def _as_strided(c, node, x, size, stride, offset=None):
    """The same memory with other strides: of a dense tensor a reshape in the order of memory."""
    given = [[e.meta["val"] if isinstance(e, torch.fx.Node) else e for e in node.args[i]] for i in (1, 2)]
    source, target = memory_order(meta(node.args[0])), dense_order(*given)
    same = _dims.same(math.prod(map(_dims.expression, given[0])), math.prod(map(_dims.expression, meta(node.args[0]).shape)))
    if source is None or target is None or offset or not same:
        raise Refused("as_strided of memory with gaps, or of a part of it")
    ordered = c.reshape(c.transpose(x, source), [_dims.text(given[0][axis]) for axis in target])
    return c.transpose(ordered, inverse(target))


@handles("pixel_shuffle")
def _pixel_shuffle(c, node, x, factor):
    *batch, channels, rows, columns = [_dims.expression(e) for e in _extents(node)]
    text = [_dims.text(e) for e in (*batch, channels / factor**2, factor, factor, rows, columns)]
    n = len(batch)
    perm = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    return c.reshape(c.transpose(c.reshape(x, text), perm), c.shape(node))

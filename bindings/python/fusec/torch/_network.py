# SPDX-License-Identifier: Apache-2.0
"""Handlers of the ops that networks are made of: products, convolutions, pooling, normalizations, attention."""
import math

import torch

from . import _dims
from ._moves import part
from ._lowering import handles, meta
from ._refused import Refused


@handles("mm", "bmm", "matmul", "mv", "dot")
def _matmul(c, node, a, b):
    return c.reshape(c.builder.matmul(a, b), c.shape(node))


@handles("addmm", "baddbmm")
def _addmm(c, node, bias, a, b, beta=1, alpha=1):
    product = c.builder.matmul(a, b)
    if alpha != 1:
        product = c.builder.mul(product, c.number(product.dtype, alpha))
    if beta == 0:
        return product
    return c.builder.add(product, bias if beta == 1 else c.builder.mul(bias, c.number(bias.dtype, beta)))


@handles("linear")
def _linear(c, node, x, weight, bias=None):
    product = c.builder.matmul(x, weight, transpose_b=True)
    return product if bias is None else c.builder.add(product, bias)


def _spatial(value, rank):
    value = [value] if isinstance(value, int) else list(value)
    return value * rank if len(value) == 1 else value


@handles("convolution")
def _convolution(c, node, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    stride, padding, dilation, transposed, more, groups = c.fixed(node.args[3:])
    stride, padding, dilation, more = (_spatial(item, x.ndim - 2) for item in (stride, padding, dilation, more))
    if transposed:
        return _transposed(c, node, x, weight, bias, stride, padding, dilation, more, groups)
    operands = [x, weight] + ([] if bias is None else [bias])
    return c.builder.conv(*operands, strides=stride, pads=padding + padding, dilations=dilation, groups=groups)


def _transposed(c, node, x, weight, bias, stride, padding, dilation, more, groups):
    """The convolution of the image with zeros between its places and the mirrored filter."""
    rank = x.ndim - 2
    fake, kernel = meta(node.args[0]), [int(e) for e in meta(node.args[1]).shape[2:]]
    extents = [_dims.expression(e) for e in fake.shape]
    if any(s > 1 for s in stride):
        apart, after, joined = _dims.texts(extents[:2]), [0, 0], _dims.texts(extents[:2])
        sizes = _dims.texts(extents[:2])
        for e, s in zip(extents[2:], stride):
            apart, after = [*apart, _dims.text(e), 1], [*after, 0, s - 1]
            joined, sizes = [*joined, _dims.text(e * s)], [*sizes, _dims.text((e - 1) * s + 1)]
        x = c.builder.pad(c.reshape(x, apart), c.number(x.dtype, 0), before=[0] * len(after), after=after)
        x = c.builder.slice(c.reshape(x, joined), starts=[0] * (rank + 2), sizes=sizes)
    inputs, outputs = (int(e) for e in meta(node.args[1]).shape[:2])
    filters = c.builder.slice(weight, starts=[0, 0, *[k - 1 for k in kernel]], sizes=[inputs, outputs, *kernel], steps=[1, 1, *[-1] * rank])
    filters = c.reshape(filters, [groups, inputs // groups, outputs, *kernel])
    filters = c.transpose(filters, [0, 2, 1, *range(3, 3 + rank)])
    filters = c.reshape(filters, [groups * outputs, inputs // groups, *kernel])
    begins = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding)]
    ends = [b + m for b, m in zip(begins, more)]
    if min(begins) < 0 or min(ends) < 0:
        raise Refused("a transposed convolution whose padding is larger than its filter")
    operands = [x, filters] + ([] if bias is None else [bias])
    return c.builder.conv(*operands, pads=begins + ends, dilations=dilation, groups=groups)


@handles("max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pool(c, node, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    rank = len(_spatial(kernel, 2 if "2d" in str(node.target) else 3))
    return _pool_batch(c, node, x, rank, 0, lambda y: c.builder.max_pool(
        y, kernel=_spatial(kernel, rank), strides=_spatial(stride or kernel, rank), pads=_spatial(padding, rank) * 2,
        dilations=_spatial(dilation, rank), ceil_mode=ceil_mode)), None


@handles("max_pool2d")
def _max_pool2d(c, node, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    return _pool_batch(c, node, x, 2, None, lambda y: c.builder.max_pool(
        y, kernel=_spatial(kernel, 2), strides=_spatial(stride or kernel, 2), pads=_spatial(padding, 2) * 2,
        dilations=_spatial(dilation, 2), ceil_mode=ceil_mode))


@handles("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(c, node, x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    rank = int(str(node.target).split("avg_pool")[1][0])
    if divisor_override is not None:
        raise Refused("avg_pool with a divisor of its own")
    return _pool_batch(c, node, x, rank, None, lambda y: c.builder.avg_pool(
        y, kernel=_spatial(kernel, rank), strides=_spatial(stride or kernel, rank), pads=_spatial(padding, rank) * 2, ceil_mode=ceil_mode,
        count_include_pad=count_include_pad))


def _pool_batch(c, node, x, rank, index, pool):
    """Pools an image with or without a batch."""
    if x.ndim == rank + 2:
        return pool(x)
    return c.reshape(pool(c.reshape(x, [1, *x.shape])), c.shape(node, index))


@handles("_adaptive_avg_pool2d", "adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
def _adaptive_avg_pool(c, node, x, size):
    rank = len(size)
    if all(s == 1 for s in size):
        return c.builder.reduce_mean(x, axes=list(range(x.ndim - rank, x.ndim)), keep=True)
    old = meta(node.args[0]).shape[-rank:]
    if any(not isinstance(e, int) or not isinstance(s, int) or e % s for e, s in zip(old, size)):
        raise Refused("an adaptive pooling of uneven windows")
    kernel = [e // s for e, s in zip(old, size)]
    return _pool_batch(c, node, x, rank, None, lambda y: c.builder.avg_pool(y, kernel=kernel, strides=kernel))


def _per_channel(c, value, rank):
    return c.reshape(value, [*value.shape, *[1] * (rank - 2)])


@handles("_native_batch_norm_legit_no_training", "native_batch_norm", "_batch_norm_no_update")
def _batch_norm(c, node, x, weight, bias, mean, variance, *rest):
    if "native_batch_norm.default" in str(node.target) and rest[0]:
        raise Refused("a batch norm of training")
    if any(c.used(node, i) for i in range(1, len(meta(node)))):
        raise Refused("statistics of a batch norm")
    dtype, wide = x.dtype, mean.dtype
    scale = c.builder.rsqrt(c.builder.add(variance, c.number(wide, rest[-1])))
    if weight is not None:
        scale = c.builder.mul(scale, c.cast(weight, wide))
    shift = c.builder.neg(c.builder.mul(mean, scale))
    if bias is not None:
        shift = c.builder.add(shift, c.cast(bias, wide))
    made = c.builder.mul(c.cast(x, wide), _per_channel(c, scale, x.ndim))
    return [c.cast(c.builder.add(made, _per_channel(c, shift, x.ndim)), dtype)] + [None] * (len(meta(node)) - 1)


def _scale_and_shift(c, made, weight, bias, dtype, rank):
    """Of each channel, in this dtype. Both are optional."""
    made = made if weight is None else c.builder.mul(made, _per_channel(c, c.cast(weight, dtype), rank))
    return made if bias is None else c.builder.add(made, _per_channel(c, c.cast(bias, dtype), rank))


@handles("_native_batch_norm_legit_functional")
def _batch_norm_training(c, node, x, weight, bias, mean, variance, training, momentum, eps):
    """(result, mean and 1 / deviation of the batch, the new running mean and variance)"""
    wide = c.dtype(node, 1)
    if not training:
        raise Refused("a batch norm with statistics of its own in a graph of training")
    axes = [0, *range(2, x.ndim)]
    y = c.cast(x, wide)
    batch_mean = c.builder.reduce_mean(y, axes=axes, keep=True)
    centred = c.builder.sub(y, batch_mean)
    batch_variance = c.builder.reduce_mean(c.builder.square(centred), axes=axes, keep=True)
    inverse = c.builder.rsqrt(c.builder.add(batch_variance, c.number(wide, eps)))
    made = c.builder.mul(centred, inverse)
    made = _scale_and_shift(c, made, weight, bias, wide, x.ndim)
    flat = c.shape(node, 1)
    batch_mean, batch_variance, inverse = (c.reshape(v, flat) for v in (batch_mean, batch_variance, inverse))
    count = math.prod([_dims.expression(meta(node.args[0]).shape[axis]) for axis in axes], start=_dims.expression(1))
    free = c.builder.div(c.as_value(_dims.text(count), wide), c.as_value(_dims.text(count - 1), wide))

    def moved(old, new):
        old = c.cast(old, wide)
        return c.builder.add(old, c.builder.mul(c.builder.sub(new, old), c.number(wide, momentum)))

    running = moved(mean, batch_mean), moved(variance, c.builder.mul(batch_variance, free))
    return [c.cast(made, x.dtype), batch_mean, inverse, *(c.cast(v, c.dtype(node, 3)) for v in running)]


@handles("_native_batch_norm_legit.no_stats")
def _batch_norm_of_batch(c, node, x, weight, bias, training, momentum, eps):
    """By the mean and variance of what it is given, as an instance norm."""
    if c.used(node, 1) or c.used(node, 2):
        raise Refused("statistics of a batch norm")
    axes, dtype, wide = [0, *range(2, x.ndim)], x.dtype, c.dtype(node, 1)
    y = c.cast(x, wide)
    centred = c.builder.sub(y, c.builder.reduce_mean(y, axes=axes, keep=True))
    variance = c.builder.reduce_mean(c.builder.square(centred), axes=axes, keep=True)
    made = c.builder.mul(centred, c.builder.rsqrt(c.builder.add(variance, c.number(wide, eps))))
    made = _scale_and_shift(c, made, weight, bias, wide, x.ndim)
    return c.cast(made, dtype), None, None


@handles("native_layer_norm")
def _layer_norm(c, node, x, shape, weight, bias, eps):
    dtype, axes = x.dtype, list(range(x.ndim - len(shape), x.ndim))
    if len(shape) == 1 and not c.used(node, 1) and not c.used(node, 2):
        one = weight if weight is not None else c.number(dtype, 1)
        zero = bias if bias is not None else c.number(dtype, 0)
        return c.builder.layer_norm(x, one, zero, eps=eps), None, None
    wide = c.dtype(node, 1)
    y = c.cast(x, wide)
    mean = c.builder.reduce_mean(y, axes=axes, keep=True)
    centred = c.builder.sub(y, mean)
    variance = c.builder.reduce_mean(c.builder.square(centred), axes=axes, keep=True)
    inverse = c.builder.rsqrt(c.builder.add(variance, c.number(wide, eps)))
    made = c.builder.mul(centred, inverse)
    made = made if weight is None else c.builder.mul(made, c.cast(weight, wide))
    made = made if bias is None else c.builder.add(made, c.cast(bias, wide))
    return c.cast(made, dtype), mean, inverse


@handles("native_group_norm")
def _group_norm(c, node, x, weight, bias, _n, _c, _hw, groups, eps):
    fake = meta(node.args[0])
    extents = [_dims.expression(e) for e in fake.shape]
    size = math.prod(extents[1:], start=_dims.expression(1)) / groups
    y = c.reshape(x, _dims.texts([extents[0], groups, size]))
    mean = c.builder.reduce_mean(y, axes=[2], keep=True)
    centred = c.builder.sub(y, mean)
    variance = c.builder.reduce_mean(c.builder.square(centred), axes=[2], keep=True)
    inverse = c.builder.rsqrt(c.builder.add(variance, c.number(x.dtype, eps)))
    made = c.reshape(c.builder.mul(centred, inverse), x.shape)
    made = made if weight is None else c.builder.mul(made, _per_channel(c, weight, x.ndim))
    made = made if bias is None else c.builder.add(made, _per_channel(c, bias, x.ndim))
    wide = c.dtype(node, 1)
    return made, *(c.cast(c.reshape(v, c.shape(node, 1)), wide) for v in (mean, inverse))


@handles("rms_norm", "_fused_rms_norm")
def _rms_norm(c, node, x, shape, weight=None, eps=None):
    pair = "_fused" in str(node.target)
    if len(shape) != 1 or (pair and c.used(node, 1)):
        raise Refused("an rms_norm of several axes, or its statistics")
    eps = torch.finfo(meta(node.args[0]).dtype).eps if eps is None else eps
    made = c.builder.rms_norm(x, weight if weight is not None else c.number(x.dtype, 1), eps=eps)
    return (made, None) if pair else made


# Attentions, which differ in where they take the mask.
@handles("_scaled_dot_product_flash_attention_for_cpu")
def _attention_cpu(c, node, q, k, v, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    return _attention(c, node, q, k, v, attn_mask, dropout_p, is_causal, scale)


@handles("_scaled_dot_product_flash_attention")
def _attention_flash(c, node, q, k, v, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    return _attention(c, node, q, k, v, None, dropout_p, is_causal, scale)


@handles("_scaled_dot_product_efficient_attention")
def _attention_efficient(c, node, q, k, v, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None):
    return _attention(c, node, q, k, v, attn_bias, dropout_p, is_causal, scale)


@handles("_scaled_dot_product_cudnn_attention")
def _attention_cudnn(c, node, q, k, v, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    return _attention(c, node, q, k, v, attn_bias, dropout_p, is_causal, scale)


@handles("_scaled_dot_product_fused_attention_overrideable")
def _attention_overrideable(c, node, q, k, v, attn_bias=None, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    return _attention(c, node, q, k, v, attn_bias, dropout_p, is_causal, scale)


@handles("scaled_dot_product_attention")
def _attention_plain(c, node, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    if q.ndim != 4:
        raise Refused("an attention of another rank than 4")
    return _attention(c, node, q, k, v, attn_mask, dropout_p, is_causal, scale)[0]


def _agree(*extents):
    """Torch leaves it to the run whether these are equal. That they are becomes a guard of the compiled function."""
    if any(extents[0] != other for other in extents[1:]):
        raise Refused("extents differ that an attention needs to be equal")


def _attention(c, node, q, k, v, mask, dropout, causal, scale):
    fakes = [meta(item) for item in node.args[:3]]
    _agree(*[fake.shape[0] for fake in fakes])
    _agree(*[fake.shape[2] for fake in fakes[1:]])
    results = len(meta(node)) if isinstance(meta(node), (tuple, list)) else 1
    if dropout:
        raise Refused("an attention with dropout")
    if any(c.used(node, i) for i in range(1, results)):
        raise Refused("an attention whose log of sums is read, which is one of training")
    depth = meta(node.args[0]).shape[-1]
    if scale is None:
        if not isinstance(depth, int):
            raise Refused("an attention whose heads have a size that is not fixed")
        scale = 1 / math.sqrt(depth)
    dtype = q.dtype
    if mask is not None and mask.dtype == "bool":
        mask = c.builder.where(mask, c.number(dtype, 0), c.number(dtype, -math.inf))
    if causal:
        rows, columns = q.shape[2], k.shape[2]
        row = c.builder.iota(dtype="i64", shape=[rows, columns], axis=0)
        column = c.builder.iota(dtype="i64", shape=[rows, columns], axis=1)
        ahead = c.builder.where(c.builder.le(column, row), c.number(dtype, 0), c.number(dtype, -math.inf))
        mask = ahead if mask is None else c.builder.add(mask, ahead)
    if mask is None:
        made = c.builder.attention(q, k, v, scale=float(scale))
    else:
        mask = c.cast(mask, dtype)
        mask = c.reshape(mask, [*[1] * (4 - mask.ndim), *mask.shape])
        made = c.builder.attention(q, k, v, mask, scale=float(scale))
    return [made] + [None] * (results - 1)


@handles("_transformer_encoder_layer_fwd")
def _encoder_layer(c, node, x, _embed, heads, qkv_weight, qkv_bias, out_weight, out_bias, use_gelu, norm_first, eps, scale1, shift1, scale2,
                   shift2,
                   weight1, bias1, weight2, bias2, mask=None, mask_type=None):
    """What torch.nn.TransformerEncoderLayer becomes outside of training, unless torch.backends.mha.set_fastpath_enabled(False)."""
    if mask is not None or x.ndim != 3:
        raise Refused("a fused encoder layer with a mask; torch.backends.mha.set_fastpath_enabled(False) writes it out")
    batch, length, width = x.shape
    depth = int(meta(node.args[0]).shape[2]) // heads

    def norm(value, scale, shift):
        return c.builder.layer_norm(value, scale, shift, eps=eps)

    def attend(value):
        joined = c.builder.linear(value, qkv_weight, qkv_bias)
        split = c.transpose(c.reshape(joined, [batch, length, 3, heads, depth]), [2, 0, 3, 1, 4])
        q, k, v = (c.reshape(part(c, split, 0, i, 1), [batch, heads, length, depth]) for i in range(3))
        made = c.builder.attention(q, k, v, scale=1 / math.sqrt(depth))
        return c.builder.linear(c.reshape(c.transpose(made, [0, 2, 1, 3]), [batch, length, width]), out_weight, out_bias)

    def feed(value):
        hidden = c.builder.linear(value, weight1, bias1)
        return c.builder.linear(c.builder.op("gelu" if use_gelu else "relu", hidden), weight2, bias2)

    if norm_first:
        x = c.builder.add(x, attend(norm(x, scale1, shift1)))
        return c.builder.add(x, feed(norm(x, scale2, shift2)))
    x = norm(c.builder.add(x, attend(x)), scale1, shift1)
    return norm(c.builder.add(x, feed(x)), scale2, shift2)

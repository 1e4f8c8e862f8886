// SPDX-License-Identifier: Apache-2.0
// Imports normalization layers as reductions and elementwise ops. Statistics of 16-bit models are computed in f32, or
// in the type that stash_type names.

#include <fmt/format.h>

#include "compiler/import/onnx/build_ops.h"
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/ops.h"

namespace fusec::importer {

namespace {

struct Moments {
  Val mean, inverse_std, normalized;
};

// (x - mean) * 1/sqrt(var + epsilon) over these axes. The mean and 1/sqrt(...) keep them with extent 1.
Moments normalize(Builder& b, Val x, const std::vector<int64_t>& axes, double epsilon) {
  Moments m;
  m.mean = reduce(b, TensorOp::reduce_mean, x, axes, true);
  Val d = sub(b, x, m.mean);
  Val var = reduce(b, TensorOp::reduce_mean, mul(b, d, d), axes, true);
  m.inverse_std = unary(b, ScalarOp::rsqrt, add(b, var, epsilon));
  m.normalized = mul(b, d, m.inverse_std);
  return m;
}

// Casts x to the type that stash_type asks for, but not to a narrower one.
Val stash(const NodeContext& c, Val x) {
  DType type = to_dtype(c.i("stash_type", 1));
  if (!is_float(type)) fail_invalid("stash_type must be a float type");
  return cast(c.b, x, size_of(type) < size_of(c.b.dtype(x)) ? c.b.dtype(x) : type);
}

}  // namespace

namespace {

// The operand as [N, C, spatial...]. An operand with one axis is a batch of one channel.
Val with_channels(const NodeContext& c) {
  Val x = c.in(0);
  if (c.b.rank(x) == 1) return reshape(c.b, x, {c.b.shape(x)[0], 1});
  if (c.b.rank(x) < 2) fail_invalid("the operand must have a batch and a channel axis");
  return x;
}

// Reshapes one value per channel to broadcast to x, in the type of x.
Val spread(Builder& b, Val v, Val x) { return along_axis(b, cast(b, v, b.dtype(x)), 1, b.rank(x)); }

// scale / sqrt(var + epsilon), one per channel
Val channel_factor(const NodeContext& c, Val var) {
  Builder& b = c.b;
  return div(b, cast(b, c.in(1), b.dtype(var)), unary(b, ScalarOp::sqrt, add(b, var, c.f("epsilon", 1e-5f))));
}

// x * s + (bias - mean * s) with s = scale / sqrt(var + epsilon): affine in x, which a pass can fold into a
// convolution.
Val normalize_channels(const NodeContext& c, Val x) {
  Builder& b = c.b;
  Val var = widen(b, c.in(4)), s = channel_factor(c, var);
  Val shift = sub(b, cast(b, c.in(2), b.dtype(var)), mul(b, cast(b, c.in(3), b.dtype(var)), s));
  return add(b, mul(b, x, spread(b, s, x)), spread(b, shift, x));
}

// running * momentum + current * (1 - momentum)
Val running_average(const NodeContext& c, Val running, Val current) {
  Builder& b = c.b;
  double momentum = c.f("momentum", 0.9f);
  Val y = add(b, mul(b, cast(b, running, b.dtype(current)), momentum), mul(b, current, 1 - momentum));
  return cast(b, y, b.dtype(running));
}

// (x - mean) * scale / sqrt(var + epsilon) + bias with the mean and variance of the batch. Outputs 1 and 2 are the
// running mean and variance. Outputs 3 and 4, which the op had before opset 14, are those of the batch.
void train_batch_normalization(NodeContext& c, Val x) {
  Builder& b = c.b;
  std::vector<int64_t> axes = range_axes(2, b.rank(x));
  axes.insert(axes.begin(), 0);
  Val wide = widen(b, x), mean = reduce(b, TensorOp::reduce_mean, wide, axes, false);
  Val d = sub(b, wide, spread(b, mean, wide));
  Val var = reduce(b, TensorOp::reduce_mean, mul(b, d, d), axes, false);
  Val y = add(b, mul(b, d, spread(b, channel_factor(c, var), wide)), spread(b, c.in(2), wide));
  c.out(0, reshape(b, cast(b, y, b.dtype(x)), b.shape(c.in(0))));
  c.out(1, running_average(c, c.in(3), mean));
  c.out(2, running_average(c, c.in(4), var));
  c.out(3, cast(b, mean, b.dtype(c.in(3))));
  c.out(4, cast(b, var, b.dtype(c.in(4))));
}

bool wants_statistics(const NodeContext& c) {
  bool wants = false;
  for (std::size_t i = 1; i < c.num_outputs(); ++i) wants |= c.wants(i);
  return wants;
}

}  // namespace

// Before opset 14, a node that asks for the statistics of the batch is in training mode.
void import_batch_normalization(NodeContext& c) {
  if (c.i("spatial", 1) == 0) fail_unsupported("spatial = 0");
  Val x = with_channels(c);
  bool wants = wants_statistics(c), trains = c.opset() < 14 ? wants : c.i("training_mode", 0) != 0;
  if (trains) return train_batch_normalization(c, x);
  if (wants) fail_invalid("it has outputs of training and training_mode = 0");
  c.out(reshape(c.b, normalize_channels(c, x), c.b.shape(c.in(0))));
}

// (x - mean) / (sqrt(mean((x - mean)^2)) + 1e-9)
void import_mean_variance_normalization(NodeContext& c) {
  Builder& b = c.b;
  Val x = widen(b, c.in(0));
  std::vector<int64_t> axes = normal_axes(c.ints("axes").value_or(std::vector<int64_t>{0, 2, 3}), b.rank(x));
  Val d = sub(b, x, reduce(b, TensorOp::reduce_mean, x, axes, true));
  Val deviation = unary(b, ScalarOp::sqrt, reduce(b, TensorOp::reduce_mean, mul(b, d, d), axes, true));
  c.out(cast(b, div(b, d, add(b, deviation, 1e-9)), b.dtype(c.in(0))));
}

void import_layer_normalization(NodeContext& c) {
  Builder& b = c.b;
  Val x = c.in(0);
  DType dtype = b.dtype(x);
  std::vector<int64_t> axes = range_axes(normal_axis(c.i("axis", -1), b.rank(x)), b.rank(x));
  Moments m = normalize(b, stash(c, x), axes, c.f("epsilon", 1e-5f));
  Val y = mul(b, cast(b, m.normalized, dtype), c.in(1));
  c.out(0, c.has(2) ? add(b, y, c.in(2)) : y);
  c.out(1, m.mean);
  c.out(2, m.inverse_std);
}

// x / sqrt(mean(x^2) + epsilon) * scale
void import_rms_normalization(NodeContext& c) {
  Builder& b = c.b;
  Val x = c.in(0), wide = stash(c, x);
  std::vector<int64_t> axes = range_axes(normal_axis(c.i("axis", -1), b.rank(x)), b.rank(x));
  Val mean_square = reduce(b, TensorOp::reduce_mean, mul(b, wide, wide), axes, true);
  Val normalized = mul(b, wide, unary(b, ScalarOp::rsqrt, add(b, mean_square, c.f("epsilon", 1e-5f))));
  // The result has the type of the scale, which may differ from that of x.
  c.out(mul(b, cast(b, cast(b, normalized, b.dtype(x)), b.dtype(c.in(1))), c.in(1)));
}

void import_instance_normalization(NodeContext& c) {
  Builder& b = c.b;
  Val x = c.in(0);
  int64_t rank = b.rank(x);
  if (rank < 3) fail_invalid("the operand must have a batch, a channel and spatial axes");
  Moments m = normalize(b, widen(b, x), range_axes(2, rank), c.f("epsilon", 1e-5f));
  Val y = mul(b, cast(b, m.normalized, b.dtype(x)), along_axis(b, c.in(1), 1, rank));
  c.out(add(b, y, along_axis(b, c.in(2), 1, rank)));
}

// Normalizes rows of [N, groups, C / groups * spatial]. Up to opset 20 scale and bias have one entry per group, from
// opset 21 on one per channel.
void import_group_normalization(NodeContext& c) {
  Builder& b = c.b;
  Val x = c.in(0);
  const Shape shape = b.shape(x);
  int64_t groups = c.i("num_groups", 0), rank = b.rank(x);
  if (rank < 2) fail_invalid("the operand must have a batch and a channel axis");
  std::optional<Dim> per_group = groups < 1 ? std::nullopt : shape[1].exact_div(groups);
  if (!per_group) fail_groups(shape[1], groups);
  Dim row = *per_group * num_elements({shape.begin() + 2, shape.end()});
  Val rows = reshape(b, c.opset() >= 21 ? stash(c, x) : widen(b, x), {shape[0], groups, row});
  Val normalized = cast(b, normalize(b, rows, {2}, c.f("epsilon", 1e-5f)).normalized, b.dtype(x));
  if (c.opset() < 21) {
    Val y = add(b, mul(b, normalized, along_axis(b, c.in(1), 1, 3)), along_axis(b, c.in(2), 1, 3));
    return c.out(reshape(b, y, shape));
  }
  Val y = mul(b, reshape(b, normalized, shape), along_axis(b, c.in(1), 1, rank));
  c.out(add(b, y, along_axis(b, c.in(2), 1, rank)));
}

// x / (bias + alpha / size * sum of x^2 over `size` neighbouring channels)^beta
void import_lrn(NodeContext& c) {
  Builder& b = c.b;
  Val x = c.in(0), wide = widen(b, x);
  int64_t size = c.i("size", 0);
  if (size < 1) fail_invalid(fmt::format("a size of {}", size));
  if (size > 1024) fail_unsupported(fmt::format("a size of {}", size));
  if (b.rank(x) < 2) fail_invalid("the operand must have a batch and a channel axis");
  const Shape shape = b.shape(x);
  Shape before(shape.size(), Dim(0)), after = before;
  before[1] = (size - 1) / 2;
  after[1] = size / 2;
  Val squares = b.emit(TensorOp::pad, {mul(b, wide, wide), b.scalar(b.dtype(wide), 0)},
                       {{"before", before}, {"after", after}, {"mode", std::string("constant")}});
  Val sum = slice(b, squares, 1, 0, shape[1]);
  for (int64_t i = 1; i < size; ++i) sum = add(b, sum, slice(b, squares, 1, i, shape[1]));
  Val base = add(b, mul(b, sum, c.f("alpha", 1e-4f) / static_cast<double>(size)), c.f("bias", 1));
  Val power = binary(b, ScalarOp::pow, base, b.scalar(b.dtype(wide), c.f("beta", 0.75)));
  c.out(cast(b, div(b, wide, power), b.dtype(x)));
}

// x / norm, 0 where the norm is 0.
void import_lp_normalization(NodeContext& c) {
  Builder& b = c.b;
  Val x = c.in(0), wide = widen(b, x);
  int64_t p = c.i("p", 2);
  if (p != 1 && p != 2) fail_invalid("p must be 1 or 2");
  std::vector<int64_t> axes = {normal_axis(c.i("axis", -1), b.rank(x))};
  Val powers = p == 1 ? unary(b, ScalarOp::abs, wide) : mul(b, wide, wide);
  Val norm = reduce(b, TensorOp::reduce_sum, powers, axes, true);
  if (p == 2) norm = unary(b, ScalarOp::sqrt, norm);
  Val zero = b.scalar(b.dtype(wide), 0);
  Val quotient = b.emit(ScalarOp::where, {binary(b, ScalarOp::eq, norm, zero), zero, div(b, wide, norm)});
  c.out(cast(b, quotient, b.dtype(x)));
}

}  // namespace fusec::importer

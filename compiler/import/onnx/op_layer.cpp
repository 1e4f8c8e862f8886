// SPDX-License-Identifier: Apache-2.0
// Imports MatMul, Gemm, Softmax, LogSoftmax, Hardmax and Dropout. Dropout is imported for inference only.

#include <fmt/format.h>

#include <algorithm>

#include "compiler/import/onnx/build_ops.h"
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/ops.h"

namespace fusec::importer {

void import_matmul(NodeContext& c) {
  c.out(c.b.emit(TensorOp::matmul, {c.in(0), c.in(1)}, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}}));
}

// alpha * A' B' + beta * C
void import_gemm(NodeContext& c) {
  Builder& b = c.b;
  double alpha = c.f("alpha", 1), beta = c.f("beta", 1);
  int64_t ta = c.i("transA", 0) != 0, tb = c.i("transB", 0) != 0;
  if (b.rank(c.in(0)) != 2 || b.rank(c.in(1)) != 2) fail_invalid("A and B must have two axes");
  Val y = b.emit(TensorOp::matmul, {c.in(0), c.in(1)}, {{"transpose_a", ta}, {"transpose_b", tb}});
  if (alpha != 1) y = mul(b, y, alpha);
  if (!c.has(2) || beta == 0) return c.out(y);
  Shape result = b.shape(y);
  y = add(b, y, beta == 1 ? c.in(2) : mul(b, c.in(2), beta));
  if (b.shape(y) != result)
    fail_differ(b.shape(y), result,
                fmt::format("C {} does not broadcast to {}", to_string(b.type(c.in(2))), to_string(result)));
  c.out(y);
}

namespace {

// Before opset 13 softmax flattened to [prod(:axis), prod(axis:)], which is the same as reducing all axes from axis on.
std::vector<int64_t> softmax_axes(const NodeContext& c, Val x) {
  int64_t rank = c.b.rank(x);
  if (c.opset() >= 13) return {normal_axis(c.i("axis", -1), rank)};
  int64_t axis = c.i("axis", 1);
  return range_axes(axis == rank ? rank : normal_axis(axis, rank), rank);
}

}  // namespace

// exp(x - max) / sum(exp(x - max))
void import_softmax(NodeContext& c) {
  Builder& b = c.b;
  Val x = widen(b, c.in(0));
  std::vector<int64_t> axes = softmax_axes(c, x);
  Val e = unary(b, ScalarOp::exp, sub(b, x, reduce(b, TensorOp::reduce_max, x, axes, true)));
  c.out(cast(b, div(b, e, reduce(b, TensorOp::reduce_sum, e, axes, true)), b.dtype(c.in(0))));
}

// (x - max) - log(sum(exp(x - max)))
void import_log_softmax(NodeContext& c) {
  Builder& b = c.b;
  Val x = widen(b, c.in(0));
  std::vector<int64_t> axes = softmax_axes(c, x);
  Val d = sub(b, x, reduce(b, TensorOp::reduce_max, x, axes, true));
  Val sum = reduce(b, TensorOp::reduce_sum, unary(b, ScalarOp::exp, d), axes, true);
  c.out(cast(b, sub(b, d, unary(b, ScalarOp::log, sum)), b.dtype(c.in(0))));
}

// 1 at the first maximum, else 0.
void import_hardmax(NodeContext& c) {
  Builder& b = c.b;
  const Shape shape = b.shape(c.in(0));
  std::vector<int64_t> axes = softmax_axes(c, c.in(0));
  Shape flat;
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()) && (axes.empty() || i < axes[0]); ++i)
    flat.push_back(shape[static_cast<std::size_t>(i)]);
  Dim row = 1;
  for (int64_t axis : axes) row *= shape[static_cast<std::size_t>(axis)];
  bool trails = axes.size() != 1 || axes[0] + 1 == b.rank(c.in(0));
  Val x = c.in(0);
  auto axis = static_cast<int64_t>(flat.size());
  flat.push_back(row);
  if (trails) x = reshape(b, x, flat);
  Val top = b.emit(TensorOp::argmax, {x}, {{"axis", axis}, {"last", int64_t{0}}});
  Shape kept = b.shape(x), counter(kept.size(), Dim(1));
  counter[static_cast<std::size_t>(axis)] = kept[static_cast<std::size_t>(axis)];
  kept[static_cast<std::size_t>(axis)] = 1;
  Val hit = binary(b, ScalarOp::eq, reshape(b, top, kept), iota(b, counter, axis, DType::i64));
  c.out(reshape(b, cast(b, hit, b.dtype(x)), shape));
}

namespace {

// Whether elements are dropped: in training mode, unless the ratio is 0. Up to opset 6, is_test != 0 means inference.
bool drops(const NodeContext& c) {
  if (c.opset() < 7) return c.i("is_test", 0) == 0 && c.f("ratio", 0.5) != 0;
  if (c.opset() < 12 || !c.has(2)) return false;
  std::vector<int64_t> training = c.const_ints(2, "training modes");
  if (training.size() != 1) fail_invalid("training_mode must be a scalar");
  if (training[0] == 0) return false;
  return !c.has(1) || c.const_float(1, "a ratio") != 0;
}

}  // namespace

// In inference, Dropout is the identity and its mask is all true.
void import_dropout(NodeContext& c) {
  if (drops(c)) fail_unsupported("training mode");
  c.out(c.in(0));
  DType mask = c.opset() < 10 ? c.b.dtype(c.in(0)) : DType::bool_;
  if (c.wants(1)) c.out(1, broadcast(c.b, c.b.scalar(mask, 1), c.b.shape(c.in(0))));
}

}  // namespace fusec::importer

// SPDX-License-Identifier: Apache-2.0
// Imports reductions, ArgMax, ArgMin and CumSum. Composite reductions of narrow floats compute in f32 and round once at
// their end.

#include <limits>

#include "compiler/import/onnx/build_ops.h"
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/ops.h"

namespace fusec::importer {

namespace {

struct Reduction {
  std::vector<int64_t> axes;
  bool keep = true;
  bool is_noop = false;  // noop_with_empty_axes: only the elementwise part remains
};

Reduction read_reduction(const NodeContext& c) {
  Reduction r;
  int64_t rank = c.b.rank(c.in(0));
  r.keep = c.i("keepdims", 1) != 0;
  std::vector<int64_t> axes = c.attr_or_input("axes", 1).value_or(std::vector<int64_t>());
  r.is_noop = axes.empty() && c.i("noop_with_empty_axes", 0) != 0;
  if (!r.is_noop) r.axes = axes.empty() ? range_axes(0, rank) : normal_axes(axes, rank);
  return r;
}

// Casts bool to u8, and integers to f64 where `needs_float`.
Val as_number(Builder& b, Val x, bool needs_float) {
  if (b.dtype(x) == DType::bool_) return cast(b, x, DType::u8);
  return needs_float && !is_float(b.dtype(x)) ? cast(b, x, DType::f64) : x;
}

}  // namespace

void map_reduce(NodeContext& c) {
  Reduction r = read_reduction(c);
  Val x = as_number(c.b, c.in(0), false);
  c.out(cast(c.b, reduce(c.b, c.row().op->tensor(), x, r.axes, r.keep), c.b.dtype(c.in(0))));
}

void map_arg(NodeContext& c) {
  Val x = as_number(c.b, c.in(0), false);
  int64_t axis = normal_axis(c.i("axis", 0), c.b.rank(x));
  Shape kept = c.b.shape(x);
  kept[static_cast<std::size_t>(axis)] = 1;
  Val index = c.b.emit(*c.row().op, {x}, {{"axis", axis}, {"last", int64_t{c.i("select_last_index", 0) != 0}}});
  c.out(c.i("keepdims", 1) != 0 ? reshape(c.b, index, kept) : index);
}

// sum(|x|)
void import_reduce_l1(NodeContext& c) {
  Reduction r = read_reduction(c);
  c.out(reduce(c.b, TensorOp::reduce_sum, unary(c.b, ScalarOp::abs, c.in(0)), r.axes, r.keep));
}

// sqrt(sum(x^2))
void import_reduce_l2(NodeContext& c) {
  Reduction r = read_reduction(c);
  Val x = widen(c.b, as_number(c.b, c.in(0), true));
  Val sum = reduce(c.b, TensorOp::reduce_sum, mul(c.b, x, x), r.axes, r.keep);
  c.out(cast(c.b, unary(c.b, ScalarOp::sqrt, sum), c.b.dtype(c.in(0))));
}

// log(sum(x))
void import_reduce_log_sum(NodeContext& c) {
  Reduction r = read_reduction(c);
  Val sum = reduce(c.b, TensorOp::reduce_sum, widen(c.b, as_number(c.b, c.in(0), true)), r.axes, r.keep);
  c.out(cast(c.b, unary(c.b, ScalarOp::log, sum), c.b.dtype(c.in(0))));
}

// m + log(sum(exp(x - m))) with m = max(x), or 0 where that is not finite.
void import_reduce_log_sum_exp(NodeContext& c) {
  Reduction r = read_reduction(c);
  Builder& b = c.b;
  Val x = widen(b, as_number(b, c.in(0), true));
  Val top = reduce(b, TensorOp::reduce_max, x, r.axes, true);
  Val infinity = b.scalar(b.dtype(x), std::numeric_limits<double>::infinity());
  Val is_finite = binary(b, ScalarOp::lt, unary(b, ScalarOp::abs, top), infinity);
  Val m = b.emit(ScalarOp::where, {is_finite, top, b.scalar(b.dtype(x), 0)});
  Val sum = reduce(b, TensorOp::reduce_sum, unary(b, ScalarOp::exp, sub(b, x, m)), r.axes, true);
  Val result = add(b, m, unary(b, ScalarOp::log, sum));
  c.out(cast(b, r.keep ? result : drop_axes(b, result, r.axes), b.dtype(c.in(0))));
}

// sum(x^2)
void import_reduce_sum_square(NodeContext& c) {
  Reduction r = read_reduction(c);
  Val x = widen(c.b, c.in(0));
  c.out(cast(c.b, reduce(c.b, TensorOp::reduce_sum, mul(c.b, x, x), r.axes, r.keep), c.b.dtype(c.in(0))));
}

void import_cumsum(NodeContext& c) {
  std::vector<int64_t> axis = c.const_ints(1, "an axis");
  if (axis.size() != 1) fail_invalid("axis must be a scalar");
  int64_t exclusive = c.i("exclusive", 0) != 0, reverse = c.i("reverse", 0) != 0;
  c.out(c.b.emit(TensorOp::cumsum, {c.in(0)},
                 {{"axis", normal_axis(axis[0], c.b.rank(c.in(0)))}, {"exclusive", exclusive}, {"reverse", reverse}}));
}

}  // namespace fusec::importer

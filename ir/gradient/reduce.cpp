// SPDX-License-Identifier: Apache-2.0
// The gradients of reductions and cumulative sums.

#include "ir/gradient/rules.h"

namespace fusec::ir::gradient {
namespace {

// A value of the reduced shape, repeated along the axes of the operand that are reduced.
ValueId spread(Call& c, ValueId v) {
  const Shape& full = c.shape(c.in(0));
  Shape kept = full;
  for (int64_t axis : c.attrs().ints("axes")) kept[static_cast<std::size_t>(axis)] = 1;
  return c.broadcast(c.reshape(v, std::move(kept)), full);
}

ValueId sum(Call& c, ValueId v) { return c.reduce(TensorOp::reduce_sum, v, c.attrs().ints("axes")); }

}  // namespace

Status reduce_sum_rule(Call& c) {
  c.give(0, spread(c, c.dy));
  return {};
}

// dx = dy / count. The count of 16-bit floats is in f32, which holds it.
Status reduce_mean_rule(Call& c) {
  const DType dtype = c.type(c.dy).dtype, wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  Dim count = 1;
  for (int64_t axis : c.attrs().ints("axes")) count *= c.shape(c.in(0))[static_cast<std::size_t>(axis)];
  const ValueId each = c.node(ScalarOp::div, {c.cast(c.dy, wide), c.count(wide, count)});
  c.give(0, spread(c, c.cast(each, dtype)));
  return {};
}

// The k elements that equal the result get dy / k each, so that the gradient does not depend on their order.
Status reduce_extreme_rule(Call& c) {
  const DType dtype = c.type(c.dy).dtype;
  const ValueId hit = c.node(ScalarOp::eq, {c.in(0), spread(c, c.result())});
  const ValueId share = c.node(ScalarOp::div, {c.dy, sum(c, c.cast(hit, dtype))});
  c.give(0, c.node(ScalarOp::where, {hit, spread(c, share), c.number(dtype, 0)}));
  return {};
}

// dx[i] = dy * product of the others. With p the product of all that are not 0: p / x[i] if no other is 0, where a 0
// counts as 1; else 0.
Status reduce_prod_rule(Call& c) {
  const DType dtype = c.type(c.dy).dtype;
  const ValueId zero = c.number(dtype, 0), one = c.number(dtype, 1);
  const ValueId is_zero = c.node(ScalarOp::eq, {c.in(0), zero});
  const ValueId factor = c.node(ScalarOp::where, {is_zero, one, c.in(0)}), zeros = c.cast(is_zero, dtype);
  const ValueId product = c.reduce(TensorOp::reduce_prod, factor, c.attrs().ints("axes"));
  const ValueId others = c.node(ScalarOp::sub, {spread(c, sum(c, zeros)), zeros});
  const ValueId slope = c.node(ScalarOp::div, {spread(c, c.node(ScalarOp::mul, {c.dy, product})), factor});
  c.give(0, c.node(ScalarOp::where, {c.node(ScalarOp::gt, {others, zero}), zero, slope}));
  return {};
}

// Each element is in the sums behind it: a cumulative sum from the other end.
Status cumsum_rule(Call& c) {
  Attrs attrs = c.attrs();
  attrs.set("reverse", 1 - attrs.i("reverse"));
  c.give(0, c.node(TensorOp::cumsum, {c.dy}, std::move(attrs)));
  return {};
}

}  // namespace fusec::ir::gradient

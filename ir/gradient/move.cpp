// SPDX-License-Identifier: Apache-2.0
// The gradients of index maps, which move elements back to where they came from and add what came from one place.

#include <numeric>

#include "ir/gradient/rules.h"

namespace fusec::ir::gradient {

Status broadcast_rule(Call& c) {
  c.give(0, c.sum_to(c.dy, c.shape(c.in(0))));
  return {};
}

Status reshape_rule(Call& c) {
  c.give(0, c.reshape(c.dy, c.shape(c.in(0))));
  return {};
}

Status transpose_rule(Call& c) {
  const std::vector<int64_t>& perm = c.attrs().ints("perm");
  std::vector<int64_t> back(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) back[static_cast<std::size_t>(perm[i])] = static_cast<int64_t>(i);
  c.give(0, c.transpose(c.dy, std::move(back)));
  return {};
}

// Element i of dy belongs to element start + step * i: zeros between and around. Axes of negative steps are flipped.
Status slice_rule(Call& c) {
  Shape starts = c.attrs().dims("starts");
  std::vector<int64_t> steps = c.attrs().ints("steps");
  ValueId v = c.dy;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i] > 0) continue;
    v = c.flip(v, i);
    starts[i] += (c.shape(c.dy)[i] - 1) * steps[i];
    steps[i] = -steps[i];
  }
  for (Dim& start : starts) start = -start;
  c.give(0, c.part(c.with_zeros(v, steps), starts, c.shape(c.in(0))));
  return {};
}

Status concat_rule(Call& c) {
  const auto axis = static_cast<std::size_t>(c.attrs().i("axis"));
  Dim start = 0;
  for (std::size_t i = 0; i < c.operands(); ++i) {
    const Dim size = c.shape(c.in(i))[axis];
    if (c.wants(i)) c.give(i, c.part(c.dy, axis, start, size));
    start += size;
  }
  return {};
}

namespace {

// The sum of dy where the pad value was put.
ValueId sum_of_padding(Call& c) {
  const ValueId inside = c.filled(DType::bool_, 1, c.shape(c.in(0)));
  const ValueId mask = c.node(TensorOp::pad, {inside, c.number(DType::bool_, 0)}, c.attrs());
  const ValueId outside = c.node(ScalarOp::where, {mask, c.number(c.type(c.dy).dtype, 0), c.dy});
  return c.sum_to(outside, {});
}

// What one axis of a pad by mode repeats, back at its places: the first `before` and the last `after` elements of v
// belong to elements of the `extent` elements between.
ValueId folded(Call& c, ValueId v, std::size_t axis, const Dim& before, const Dim& extent, const Dim& after) {
  const bool is_edge = c.attrs().s("mode") == "edge";
  ValueId sum = c.part(v, axis, before, extent);
  const auto add = [&](const Dim& start, const Dim& size, const Dim& place) {
    if (size.is(0)) return;
    ValueId side = c.part(v, axis, start, size);
    side = is_edge ? c.sum_to(side, with(c.shape(side), axis, 1)) : c.flip(side, axis);
    sum = c.node(ScalarOp::add, {sum, c.part(side, axis, -place, extent)});
  };
  add(0, before, is_edge ? 0 : 1);
  add(before + extent, after, extent - 1 - (is_edge ? Dim(0) : after));
  return sum;
}

}  // namespace

// Mode constant: the part inside. Mode edge: outer elements repeat the first or last one; mode reflect: those beside
// them, in reverse order.
Status pad_rule(Call& c) {
  const Shape &before = c.attrs().dims("before"), &after = c.attrs().dims("after"), &inner = c.shape(c.in(0));
  if (c.attrs().s("mode") == "constant") {
    if (c.wants(0)) c.give(0, c.part(c.dy, before, inner));
    if (c.operands() > 1 && c.wants(1)) c.give(1, sum_of_padding(c));
    return {};
  }
  if (c.attrs().s("mode") == "wrap") {
    return c.refuse(
        "has no gradient in mode wrap; the modes constant, edge and reflect have one, and a concat of slices");
  }
  ValueId v = c.dy;
  for (std::size_t i = 0; i < inner.size(); ++i) v = folded(c, v, i, before[i], inner[i], after[i]);
  c.give(0, v);
  return {};
}

}  // namespace fusec::ir::gradient

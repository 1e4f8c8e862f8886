// SPDX-License-Identifier: Apache-2.0
#include "ir/gradient/writer.h"

#include <algorithm>
#include <numeric>

namespace fusec::ir::gradient {

std::vector<int64_t> all_axes(std::size_t rank) {
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Shape with(Shape shape, std::size_t axis, Dim extent) {
  shape[axis] = std::move(extent);
  return shape;
}

ValueId Writer::node(Op op, std::vector<ValueId> inputs, Attrs attrs) {
  return add_node(graph_, op, std::move(inputs), std::move(attrs), origin_);
}

ValueId Writer::number(DType dtype, double value) { return add_scalar_constant(graph_, dtype, value); }

ValueId Writer::count(DType dtype, const Dim& value) {
  if (value.is_const()) return number(dtype, static_cast<double>(value.value()));
  return node(TensorOp::dim, {}, {{"value", Shape{value}}, {"dtype", dtype}});
}

ValueId Writer::filled(DType dtype, double value, Shape shape) {
  return broadcast(number(dtype, value), std::move(shape));
}

ValueId Writer::cast(ValueId v, DType dtype) {
  return type(v).dtype == dtype ? v : node(ScalarOp::cast, {v}, {{"to", dtype}});
}

ValueId Writer::reshape(ValueId v, Shape to) {
  return shape(v) == to ? v : node(TensorOp::reshape, {v}, {{"shape", std::move(to)}});
}

ValueId Writer::broadcast(ValueId v, Shape to) {
  return shape(v) == to ? v : node(TensorOp::broadcast, {v}, {{"shape", std::move(to)}});
}

ValueId Writer::transpose(ValueId v, std::vector<int64_t> perm) {
  return perm == all_axes(perm.size()) ? v : node(TensorOp::transpose, {v}, {{"perm", std::move(perm)}});
}

ValueId Writer::reduce(TensorOp op, ValueId v, std::vector<int64_t> axes) {
  return axes.empty() ? v : node(op, {v}, {{"axes", std::move(axes)}});
}

ValueId Writer::matmul(ValueId a, ValueId b, bool transpose_a, bool transpose_b) {
  return node(TensorOp::matmul, {a, b}, {{"transpose_a", int64_t{transpose_a}}, {"transpose_b", int64_t{transpose_b}}});
}

ValueId Writer::sum_to(ValueId v, const Shape& to) {
  const Shape& from = shape(v);
  const std::size_t added = from.size() - to.size();
  std::vector<int64_t> axes;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool is_repeated = i < added || to[i - added].is(1);
    if (is_repeated && !from[i].is(1)) axes.push_back(static_cast<int64_t>(i));
  }
  return reshape(reduce(TensorOp::reduce_sum, v, std::move(axes)), to);
}

ValueId Writer::slice(ValueId v, Shape starts, Shape sizes, std::vector<int64_t> steps) {
  const bool is_whole = sizes == shape(v) && starts == Shape(starts.size(), 0) &&
                        std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s == 1; });
  if (is_whole) return v;
  return node(TensorOp::slice, {v},
              {{"starts", std::move(starts)}, {"sizes", std::move(sizes)}, {"steps", std::move(steps)}});
}

ValueId Writer::flip(ValueId v, std::size_t axis) {
  const Shape sizes = shape(v);
  if (sizes[axis].is(1)) return v;
  std::vector<int64_t> steps(sizes.size(), 1);
  steps[axis] = -1;
  return slice(v, with(Shape(sizes.size(), 0), axis, sizes[axis] - 1), sizes, std::move(steps));
}

ValueId Writer::part(ValueId v, const Shape& starts, const Shape& sizes) {
  const DimRanges ranges = symbol_ranges(graph_.limits);
  const auto at_least_0 = [&](const Dim& d) {
    if (proves_nonneg(d, ranges)) return d;
    return proves_nonneg(-d, ranges) ? Dim(0) : max(d, 0);
  };
  const std::size_t rank = starts.size();
  Shape before(rank), after(rank), first(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    before[i] = at_least_0(-starts[i]);
    after[i] = at_least_0(starts[i] + sizes[i] - shape(v)[i]);
    first[i] = starts[i] + before[i];
  }
  const Shape none(rank, 0);
  if (before != none || after != none) {
    v = node(TensorOp::pad, {v, number(type(v).dtype, 0)},
             {{"before", std::move(before)}, {"after", std::move(after)}, {"mode", std::string("constant")}});
  }
  return slice(v, std::move(first), sizes, std::vector<int64_t>(rank, 1));
}

ValueId Writer::part(ValueId v, std::size_t axis, const Dim& start, const Dim& size) {
  return part(v, with(Shape(shape(v).size(), 0), axis, start), with(shape(v), axis, size));
}

// [H, W] -> [H, 1, W, 1] -> [H, s, W, s] -> [H*s, W*s]
ValueId Writer::with_zeros(ValueId v, const std::vector<int64_t>& steps) {
  const Shape from = shape(v);
  Shape split, after, joined;
  for (std::size_t i = 0; i < from.size(); ++i) {
    split.push_back(from[i]);
    after.push_back(0);
    joined.push_back(from[i] * steps[i]);
    if (steps[i] == 1) continue;
    split.push_back(1);
    after.push_back(steps[i] - 1);
  }
  if (joined == from) return v;
  const Shape before(after.size(), 0);
  v = node(TensorOp::pad, {reshape(v, std::move(split)), number(type(v).dtype, 0)},
           {{"before", before}, {"after", std::move(after)}, {"mode", std::string("constant")}});
  return reshape(v, std::move(joined));
}

}  // namespace fusec::ir::gradient

// SPDX-License-Identifier: Apache-2.0
// Imports pooling over windows (MaxPool, AveragePool, LpPool) and over whole images (the Global ops). The index output
// of MaxPool is computed from gathered windows, because the `max_pool` node has only one output.

#include <fmt/format.h>

#include "compiler/import/onnx/build_ops.h"
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/ops.h"

namespace fusec::importer {

namespace {

Val number(Builder& b, const Dim& value) { return b.integers(DType::i64, {}, {value}); }

Val scaled(Builder& b, Val x, const Dim& factor) { return factor.is(1) ? x : mul(b, x, number(b, factor)); }

// Emits 0, 1, ... along one axis of a tensor of this rank; the other extents are 1.
Val count_along(Builder& b, int64_t rank, int64_t axis, const Dim& extent) {
  Shape shape(static_cast<std::size_t>(rank), Dim(1));
  shape[static_cast<std::size_t>(axis)] = extent;
  return iota(b, shape, axis, DType::i64);
}

// One spatial axis and its window.
struct Axis {
  Dim extent;
  int64_t kernel, stride, dilation, begin, end;
  bool may_leave;  // whether a window can reach outside the image
};

Axis make_axis(const Window& w, const Shape& spatial, std::size_t i, int64_t ceil_mode) {
  int64_t begin = w.pads[i], end = w.pads[i + w.axes()];
  return {spatial[i], w.kernel[i], w.strides[i], w.dilations[i], begin, end, begin + end > 0 || ceil_mode != 0};
}

// The position that tap k of window o reads: origin + dilation * k with origin = stride * o - begin. If that position
// is padding, the nearest tap inside the image is read instead.
Val place(Builder& b, const Axis& a, Val window, Val tap) {
  Val origin = scaled(b, window, a.stride), zero = number(b, 0);
  if (!a.may_leave) return add(b, origin, scaled(b, tap, a.dilation));
  origin = sub(b, origin, number(b, a.begin));
  Val lacking = binary(b, ScalarOp::max, sub(b, zero, origin), zero);
  Val first = div(b, add(b, lacking, number(b, a.dilation - 1)), number(b, a.dilation));
  Val room = binary(b, ScalarOp::max, sub(b, number(b, a.extent - 1), origin), zero);
  Val last = binary(b, ScalarOp::min, div(b, room, number(b, a.dilation)), number(b, a.kernel - 1));
  Val inside = b.emit(ScalarOp::clamp, {tap, first, last});
  Val at = add(b, origin, scaled(b, inside, a.dilation));
  return b.emit(ScalarOp::clamp, {at, zero, number(b, a.extent - 1)});
}

// [N, C, H, W] -> [N, C, windows, windows, taps * taps]. Padding is replaced by an element of the same window, which
// adds neither another value nor an earlier position.
Val gather_windows(Builder& b, Val x, const std::vector<Axis>& axes, const Shape& result) {
  std::vector<int64_t> perm = {0, 1}, taps;
  Shape rows = result;
  Dim size = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    auto at = static_cast<int64_t>(2 + 2 * i);
    Val table = place(b, axes[i], count_along(b, 2, 0, result[2 + i]), count_along(b, 2, 1, axes[i].kernel));
    x = b.emit(TensorOp::gather, {x, table}, {{"axis", at}});
    perm.push_back(at);
    taps.push_back(at + 1);
    size *= axes[i].kernel;
  }
  perm.insert(perm.end(), taps.begin(), taps.end());
  rows.push_back(size);
  return reshape(b, transpose(b, x, perm), rows);
}

// ((n * C + c) * H + h) * W + w of the first maximum; column_major: (n * C + c) * H * W + h + w * H.
Val max_indices(Builder& b, Val x, const std::vector<Axis>& axes, const Shape& result, bool column_major) {
  int64_t rank = b.rank(x);
  Val rest = b.emit(TensorOp::argmax, {gather_windows(b, x, axes, result)}, {{"axis", rank}, {"last", int64_t{0}}});
  std::vector<Val> places(axes.size());
  Dim plane = 1;
  for (std::size_t i = axes.size(); i-- > 0; plane *= axes[i].extent) {
    Val kernel = number(b, axes[i].kernel), tap = i == 0 ? rest : binary(b, ScalarOp::mod, rest, kernel);
    if (i > 0) rest = div(b, rest, kernel);
    places[i] = place(b, axes[i], count_along(b, rank, static_cast<int64_t>(2 + i), result[2 + i]), tap);
  }
  Shape planes(result.size(), Dim(1));
  planes[0] = result[0], planes[1] = result[1];
  Val index = reshape(b, iota(b, {result[0] * result[1]}, 0, DType::i64), planes);
  index = scaled(b, index, plane);
  Dim stride = 1;
  for (std::size_t j = 0; j < axes.size(); ++j) {
    std::size_t i = column_major ? j : axes.size() - 1 - j;
    index = add(b, index, scaled(b, places[i], stride));
    stride *= axes[i].extent;
  }
  return index;
}

std::vector<Axis> all_axes(const Window& w, const Shape& spatial, int64_t ceil_mode) {
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < w.axes(); ++i) axes.push_back(make_axis(w, spatial, i, ceil_mode));
  return axes;
}

}  // namespace

void import_max_pool(NodeContext& c) {
  Window w = read_pool_window(c);
  int64_t ceil_mode = c.i("ceil_mode", 0) != 0, order = c.i("storage_order", 0);
  if (order != 0 && order != 1) fail_invalid("storage_order must be 0 or 1");
  Val x = c.in(0), y = c.b.emit(TensorOp::max_pool, {x}, pool_attrs(w, ceil_mode));
  c.out(y);
  std::vector<Axis> axes = all_axes(w, spatial_extents(c.b, x), ceil_mode);
  if (c.wants(1)) c.out(1, max_indices(c.b, x, axes, c.b.shape(y), order == 1));
}

void import_average_pool(NodeContext& c) {
  ir::Attrs attrs = pool_attrs(read_pool_window(c), c.i("ceil_mode", 0) != 0);
  attrs.set("count_include_pad", int64_t{c.i("count_include_pad", 0) != 0});
  c.out(c.b.emit(TensorOp::avg_pool, {c.in(0)}, std::move(attrs)));
}

void import_global_average_pool(NodeContext& c) {
  spatial_extents(c.b, c.in(0));
  c.out(reduce(c.b, TensorOp::reduce_mean, c.in(0), range_axes(2, c.b.rank(c.in(0))), true));
}

void import_global_max_pool(NodeContext& c) {
  spatial_extents(c.b, c.in(0));
  c.out(reduce(c.b, TensorOp::reduce_max, c.in(0), range_axes(2, c.b.rank(c.in(0))), true));
}

namespace {

int64_t read_p(const NodeContext& c) {
  int64_t p = c.i("p", 2);
  if (p < 1) fail_invalid(fmt::format("p must be at least 1, got {}", p));
  return p;
}

// |x|^p
Val lp_power(Builder& b, Val x, int64_t p) {
  if (p == 2) return mul(b, x, x);
  Val size = unary(b, ScalarOp::abs, x);
  return p == 1 ? size : binary(b, ScalarOp::pow, size, b.scalar(b.dtype(x), static_cast<double>(p)));
}

// x^(1/p)
Val lp_root(Builder& b, Val x, int64_t p) {
  if (p == 1) return x;
  if (p == 2) return unary(b, ScalarOp::sqrt, x);
  return binary(b, ScalarOp::pow, x, b.scalar(b.dtype(x), 1 / static_cast<double>(p)));
}

// The number of positions of each window that lie in the padded image: the product over the axes of min(kernel,
// ceil((begin + extent + end - stride * o) / dilation)).
Val count_places(Builder& b, const std::vector<Axis>& axes, const Shape& result, DType dtype) {
  Val all = b.scalar(dtype, 1);
  auto rank = static_cast<int64_t>(result.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Axis& a = axes[i];
    Val window = count_along(b, rank, static_cast<int64_t>(2 + i), result[2 + i]);
    Val room = sub(b, number(b, a.extent + a.begin + a.end + (a.dilation - 1)), scaled(b, window, a.stride));
    Val count = binary(b, ScalarOp::min, div(b, room, number(b, a.dilation)), number(b, a.kernel));
    all = mul(b, all, cast(b, count, dtype));
  }
  return all;
}

}  // namespace

// (sum of |x|^p)^(1/p), where padding counts as 0. The sum is the mean over the window times the number of its
// positions.
void import_lp_pool(NodeContext& c) {
  Builder& b = c.b;
  int64_t p = read_p(c), ceil_mode = c.i("ceil_mode", 0) != 0;
  Window w = read_pool_window(c);
  Val x = widen(b, c.in(0));
  ir::Attrs attrs = pool_attrs(w, ceil_mode);
  attrs.set("count_include_pad", int64_t{1});
  Val mean = b.emit(TensorOp::avg_pool, {lp_power(b, x, p)}, std::move(attrs)), count = b.scalar(b.dtype(x), 1);
  for (int64_t k : w.kernel) count = mul(b, count, static_cast<double>(k));
  if (ceil_mode != 0) count = count_places(b, all_axes(w, spatial_extents(b, x), ceil_mode), b.shape(mean), b.dtype(x));
  c.out(cast(b, lp_root(b, mul(b, mean, count), p), b.dtype(c.in(0))));
}

// (sum of |x|^p)^(1/p) over the spatial axes
void import_global_lp_pool(NodeContext& c) {
  Builder& b = c.b;
  int64_t p = read_p(c);
  spatial_extents(b, c.in(0));
  Val sum = reduce(b, TensorOp::reduce_sum, lp_power(b, widen(b, c.in(0)), p), range_axes(2, b.rank(c.in(0))), true);
  c.out(cast(b, lp_root(b, sum, p), b.dtype(c.in(0))));
}

}  // namespace fusec::importer

// SPDX-License-Identifier: Apache-2.0
// Imports QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear, and the integer products MatMulInteger,
// ConvInteger, QLinearMatMul and QLinearConv. Scales and zero points may be per tensor, per axis or per block. Integer
// sums are computed exactly by float matmul and conv nodes (compiler/import/onnx/quantize.cpp).

#include <fmt/format.h>

#include <algorithm>

#include "compiler/import/onnx/build_ops.h"
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/ops.h"

namespace fusec::importer {
namespace {

// Expands one parameter per block of `size` entries of `axis` to one per entry: entry i takes that of block i / size.
// The last block may be shorter.
Val spread_blocks(const NodeContext& c, Val parameter, int64_t size) {
  Builder& b = c.b;
  const int64_t rank = b.rank(c.in(0)), axis = normal_axis(c.i("axis", 1), rank);
  const Dim extent = b.shape(c.in(0))[static_cast<std::size_t>(axis)];
  if (size < 0 || b.rank(parameter) != rank)
    fail_invalid("block_size wants scales of the operand's rank, and to be positive");
  const Val entries = iota(b, {extent}, 0, DType::i64);
  const Val blocks = div(b, entries, b.scalar(DType::i64, static_cast<double>(size)));
  return b.emit(TensorOp::gather, {parameter, blocks}, {{"axis", axis}});
}

// Reshapes a scale or zero point to broadcast to the operand: a single value, one per entry of `axis`, or one per block
// of entries.
Val spread(const NodeContext& c, Val parameter) {
  int64_t rank = c.b.rank(c.in(0));
  if (const int64_t size = c.i("block_size", 0); size != 0) return spread_blocks(c, parameter, size);
  const Shape& shape = c.b.shape(parameter);
  if (shape.empty() || shape == Shape{1}) return reshape(c.b, parameter, {});
  return along_axis(c.b, parameter, normal_axis(c.i("axis", 1), rank), rank);
}

}  // namespace

// saturate(round(x / scale) + zero_point)
void import_quantize(NodeContext& c) {
  Builder& b = c.b;
  DType to = c.has(2) ? b.dtype(c.in(2)) : DType::u8;
  if (!c.has(2) && c.i("output_dtype", 0) != 0) to = to_dtype(c.i("output_dtype", 0));
  Val scale = widen(b, spread(c, c.in(1))), x = cast(b, c.in(0), b.dtype(scale));
  c.out(saturate(b, div(b, x, scale), c.has(2) ? spread(c, c.in(2)) : Val(), to));
}

// (x - zero_point) * scale
void import_dequantize(NodeContext& c) {
  Builder& b = c.b;
  Val scale = spread(c, c.in(1)), x = cast(b, c.in(0), compute_type(b.dtype(scale)));
  if (c.has(2)) x = sub(b, x, cast(b, spread(c, c.in(2)), b.dtype(x)));
  Val y = mul(b, x, widen(b, scale));
  DType to = c.i("output_dtype", 0) != 0 ? to_dtype(c.i("output_dtype", 0)) : b.dtype(scale);
  c.out(cast(b, y, to));
}

namespace {

void check_8_bit(const Builder& b, Val x) {
  if (b.dtype(x) == DType::i8 || b.dtype(x) == DType::u8) return;
  fail_invalid("quantized operands must be of type i8 or u8, got " + to_string(b.type(x)));
}

bool is_single(const Builder& b, Val v) { return b.shape(v).empty() || b.shape(v) == Shape{1}; }

// Reshape a scale or zero point of rows (axis rank - 2 of the operand) or columns (the last axis) to broadcast to the
// operand. The parameter is a single value, a vector, or has the axes of the operand.
Val of_rows(Builder& b, Val parameter) {
  if (is_single(b, parameter)) return reshape(b, parameter, {});
  return b.rank(parameter) == 1 ? reshape(b, parameter, {b.shape(parameter)[0], 1}) : parameter;
}
Val of_columns(Builder& b, Val parameter) { return is_single(b, parameter) ? reshape(b, parameter, {}) : parameter; }

// Reshapes a parameter to broadcast: a single value, or one per output channel of a tensor of this rank with the
// channels on `axis`.
Val of_channels(Builder& b, Val parameter, int64_t axis, int64_t rank) {
  return is_single(b, parameter) ? reshape(b, parameter, {}) : along_axis(b, parameter, axis, rank);
}

Val single(Builder& b, Val parameter, const char* what) {
  if (!is_single(b, parameter))
    fail_invalid(fmt::format("{} must be a scalar, got {}", what, to_string(b.type(parameter))));
  return reshape(b, parameter, {});
}

// Adds up, over pieces of axis x_axis of x and w_axis of w, what `piece` emits for slices of (x - zero) and (w - zero).
template <class F>
Val sum_pieces(Builder& b, const Quantized& x, const Quantized& w, const Terms& terms, int64_t x_axis, int64_t w_axis,
               const F& piece) {
  ExactProduct product = exact_product(b, x, w, terms);
  Val left = centered(b, x, product.dtype), right = centered(b, w, product.dtype), all;
  if (product.ends.size() == 1) return as_i32(b, piece(left, right), product);
  Dim start = 0;
  for (const Dim& end : product.ends) {
    Val sums = piece(slice(b, left, x_axis, start, end - start), slice(b, right, w_axis, start, end - start));
    sums = as_i32(b, sums, product);
    all = all.valid() ? add(b, all, sums) : sums;
    start = end;
  }
  return all;
}

// sum of (x - zero) * (y - zero) as i32
Val multiply(Builder& b, const Quantized& x, const Quantized& y) {
  check_8_bit(b, x.x), check_8_bit(b, y.x);
  int64_t rank = b.rank(y.x);
  if (b.rank(x.x) < 1 || rank < 1) fail_invalid("the operands must have an axis");
  const Shape shape = b.shape(y.x);
  int64_t axis = std::max<int64_t>(rank - 2, 0);
  const Dim count = shape[static_cast<std::size_t>(axis)], &other = b.shape(x.x).back();
  if (!(count == other))
    fail_differ({other}, {count}, fmt::format("inner extents {} and {} differ", other.str(), count.str()));
  Terms terms{count, 1, rank == 1 ? Dim(1) : shape.back(), true};
  return sum_pieces(b, x, y, terms, b.rank(x.x) - 1, axis, [&](Val left, Val right) {
    return b.emit(TensorOp::matmul, {left, right}, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}});
  });
}

// The same for a convolution. Its sums are rounded, because a library may compute them by transforms whose results are
// only near integers.
Val convolve(NodeContext& c, const Quantized& x, const Quantized& filter) {
  Builder& b = c.b;
  check_8_bit(b, x.x), check_8_bit(b, filter.x);
  Window w = read_window(c, spatial_extents(b, x.x), filter_extents(c, x.x, filter.x));
  Dim size = 1;
  for (int64_t k : w.kernel) size *= k;
  int64_t groups = c.i("group", 1);
  const Dim count = b.shape(filter.x)[1];
  if (!(count * groups == b.shape(x.x)[1]))
    fail_differ({b.shape(x.x)[1]}, {count * groups},
                fmt::format("the operand has {} channels, the filter takes {} in each of {} groups",
                            b.shape(x.x)[1].str(), count.str(), groups));
  Terms terms{count, size.value(), 1, groups == 1};
  return sum_pieces(b, x, filter, terms, 1, 1, [&](Val image, Val weights) {
    return unary(b, ScalarOp::round, conv(b, image, weights, Val(), w, groups));
  });
}

// saturate(round(sums * (x_scale * w_scale / y_scale)) + y_zero)
Val requantize(Builder& b, Val sums, Val factor, Val y_zero) {
  Val y = mul(b, cast(b, sums, b.dtype(factor)), factor);
  Val q = saturate(b, y, y_zero, b.dtype(y_zero));
  if (b.shape(q) != b.shape(sums))
    fail_differ(b.shape(q), b.shape(sums), "scales and zero points do not broadcast to " + to_string(b.shape(sums)));
  return q;
}

}  // namespace

void import_matmul_integer(NodeContext& c) {
  Builder& b = c.b;
  Quantized x{c.in(0), c.has(2) ? of_rows(b, c.in(2)) : Val()};
  c.out(multiply(b, x, {c.in(1), c.has(3) ? of_columns(b, c.in(3)) : Val()}));
}

void import_conv_integer(NodeContext& c) {
  Builder& b = c.b;
  Quantized x{c.in(0), c.has(2) ? single(b, c.in(2), "x_zero_point") : Val()};
  c.out(convolve(c, x, {c.in(1), c.has(3) ? of_channels(b, c.in(3), 0, b.rank(c.in(1))) : Val()}));
}

// The inputs are a, scale, zero; b, scale, zero; and scale and zero of the result, which may be per row like those of
// a.
void import_qlinear_matmul(NodeContext& c) {
  Builder& b = c.b;
  Val sums = multiply(b, {c.in(0), of_rows(b, c.in(2))}, {c.in(3), of_columns(b, c.in(5))});
  Val factor = mul(b, widen(b, of_rows(b, c.in(1))), widen(b, of_columns(b, c.in(4))));
  c.out(requantize(b, sums, div(b, factor, widen(b, of_rows(b, c.in(6)))), of_rows(b, c.in(7))));
}

// The inputs are those of QLinearMatMul, then a bias in units of x_scale * w_scale.
void import_qlinear_conv(NodeContext& c) {
  Builder& b = c.b;
  int64_t rank = b.rank(c.in(0));
  Quantized x{c.in(0), single(b, c.in(2), "x_zero_point")};
  Val sums = convolve(c, x, {c.in(3), of_channels(b, c.in(5), 0, rank)});
  if (c.has(8)) sums = add(b, sums, along_axis(b, c.in(8), 1, rank));
  Val factor = mul(b, single(b, c.in(1), "x_scale"), of_channels(b, c.in(4), 1, rank));
  factor = div(b, factor, single(b, c.in(6), "y_scale"));
  c.out(requantize(b, sums, factor, single(b, c.in(7), "y_zero_point")));
}

// scale = (max(x, 0) - min(x, 0)) / 255, 1 where that is 0; zero = saturate(round(-min(x, 0) / scale))
void import_dynamic_quantize(NodeContext& c) {
  Builder& b = c.b;
  Val x = c.in(0), none = b.scalar(b.dtype(x), 0);
  std::vector<int64_t> axes = range_axes(0, b.rank(x));
  Val high = binary(b, ScalarOp::max, reduce(b, TensorOp::reduce_max, x, axes, false), none);
  Val low = binary(b, ScalarOp::min, reduce(b, TensorOp::reduce_min, x, axes, false), none);
  Val range = sub(b, high, low), steps = div(b, range, b.scalar(b.dtype(x), 255));
  Val scale = b.emit(ScalarOp::where, {binary(b, ScalarOp::eq, range, none), b.scalar(b.dtype(x), 1), steps});
  Val zero = saturate(b, div(b, unary(b, ScalarOp::neg, low), scale), Val(), DType::u8);
  c.out(0, saturate(b, div(b, x, scale), zero, DType::u8));
  c.out(1, scale);
  c.out(2, zero);
}

}  // namespace fusec::importer

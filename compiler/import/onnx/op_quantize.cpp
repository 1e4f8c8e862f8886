// SPDX-License-Identifier: Apache-2.0
// Linear quantization to and from 8- and 16-bit integers.
#include <fmt/format.h>

#include <utility>

#include "compiler/import/onnx/build_ops.h"
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/ops.h"

namespace fusec::importer {

namespace {

// A scale or zero point: one for all, or one per entry of `axis`.
Val spread(const NodeContext& c, Val parameter) {
  int64_t rank = c.b.rank(c.in(0));
  if (c.i("block_size", 0) != 0) fail_unsupported("block_size");
  const Shape& shape = c.b.shape(parameter);
  if (shape.empty() || shape == Shape{1}) return reshape(c.b, parameter, {});
  return along_axis(c.b, parameter, normal_axis(c.i("axis", 1), rank), rank);
}

std::pair<double, double> bounds(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return {0, 255};
    case DType::i8:
      return {-128, 127};
    case DType::u16:
      return {0, 65535};
    case DType::i16:
      return {-32768, 32767};
    default:
      fail_unsupported(fmt::format("a quantized type {}", to_string(dtype)));
  }
}

}  // namespace

// saturate(round(x / scale) + zero_point)
void import_quantize(NodeContext& c) {
  Builder& b = c.b;
  DType to = c.has(2) ? b.dtype(c.in(2)) : DType::u8;
  if (!c.has(2) && c.i("output_dtype", 0) != 0) to = to_dtype(static_cast<int>(c.i("output_dtype", 0)));
  auto [low, high] = bounds(to);
  Val scale = widen(b, spread(c, c.in(1))), x = cast(b, c.in(0), b.dtype(scale));
  Val q = unary(b, ScalarOp::round, div(b, x, scale));
  if (c.has(2)) q = add(b, q, cast(b, spread(c, c.in(2)), b.dtype(q)));
  c.out(cast(b, b.emit(ScalarOp::clamp, {q, b.scalar(b.dtype(q), low), b.scalar(b.dtype(q), high)}), to));
}

// (x - zero_point) * scale
void import_dequantize(NodeContext& c) {
  Builder& b = c.b;
  Val scale = spread(c, c.in(1)), x = cast(b, c.in(0), compute_type(b.dtype(scale)));
  if (c.has(2)) x = sub(b, x, cast(b, spread(c, c.in(2)), b.dtype(x)));
  Val y = mul(b, x, widen(b, scale));
  DType to = c.i("output_dtype", 0) != 0 ? to_dtype(static_cast<int>(c.i("output_dtype", 0))) : b.dtype(scale);
  c.out(cast(b, y, to));
}

}  // namespace fusec::importer

// SPDX-License-Identifier: Apache-2.0
// Imports QuantizeLinear, to integers of 8 and 16 bits, and DequantizeLinear. Scales and zero points may be per tensor,
// per axis or per block.

#include "compiler/import/onnx/build_ops.h"
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/ops.h"
#include "compiler/import/onnx/quantize.h"

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

}  // namespace fusec::importer

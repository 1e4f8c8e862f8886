// SPDX-License-Identifier: Apache-2.0
// Imports ops that place elements by computed positions: TopK, Scatter, ScatterElements, ScatterND and ReverseSequence.
// TopK and the scatters become one node (ir/ops/tensor_ops.def), which the optimize stage expands; TopK gathers its
// values by the indices of that node. ReverseSequence is a gather of mirrored positions along the time axis.

#include <fmt/format.h>

#include "compiler/import/onnx/build_ops.h"
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/ops.h"

namespace fusec::importer {

// Both outputs are sorted even where `sorted` is 0, because ONNX then allows any order.
void import_topk(NodeContext& c) {
  Builder& b = c.b;
  Val x = c.in(0);
  const int64_t axis = normal_axis(c.i("axis", -1), b.rank(x));
  const std::vector<Dim> k = c.opset() < 10 ? std::vector<Dim>{c.i("k", 0)} : c.dims(1, "counts");
  if (k.size() != 1) fail_invalid("k must be a scalar");
  Val index =
      b.emit(TensorOp::topk, {x}, {{"axis", axis}, {"k", Shape{k[0]}}, {"largest", int64_t{c.i("largest", 1) != 0}}});
  if (c.wants(0)) c.out(0, b.emit(TensorOp::gather_elements, {x, index}, {{"axis", axis}}));
  c.out(1, index);
}

void import_scatter_elements(NodeContext& c) {
  const int64_t axis = normal_axis(c.i("axis", 0), c.b.rank(c.in(0)));
  check_indices(c.b, c.in(1), c.b.shape(c.in(0))[static_cast<std::size_t>(axis)]);
  ir::Attrs attrs = {{"axis", axis}, {"reduction", c.s("reduction", "none")}};
  c.out(c.b.emit(TensorOp::scatter_elements, {c.in(0), c.in(1), c.in(2)}, std::move(attrs)));
}

void import_scatter_nd(NodeContext& c) {
  c.out(c.b.emit(TensorOp::scatter_nd, {c.in(0), c.in(1), c.in(2)}, {{"reduction", c.s("reduction", "none")}}));
}

namespace {

std::size_t read_axis(const NodeContext& c, const char* name, int64_t otherwise) {
  int64_t axis = c.i(name, otherwise);
  if (axis != 0 && axis != 1) fail_invalid(fmt::format("{} must be 0 or 1, got {}", name, axis));
  return static_cast<std::size_t>(axis);
}

// Lengths that are known must lie within the time axis.
void check_lengths(const Builder& b, Val lengths, const Dim& extent) {
  std::optional<std::vector<Dim>> known = b.known_integers(lengths);
  if (!known || !extent.is_const()) return;
  for (const Dim& length : *known) {
    if (!length.is_const() || (length.value() >= 0 && length.value() <= extent.value())) continue;
    fail_invalid(fmt::format("a sequence of length {} on a time axis of extent {}", length.str(), extent.str()));
  }
}

}  // namespace

// y[t, b] = x[t < length[b] ? length[b] - 1 - t : t, b]
void import_reverse_sequence(NodeContext& c) {
  Builder& b = c.b;
  Val x = c.in(0), lengths = cast(b, c.in(1), DType::i64);
  std::size_t batch = read_axis(c, "batch_axis", 1), time = read_axis(c, "time_axis", 0);
  if (batch == time) fail_invalid("batch_axis and time_axis are the same");
  const Shape shape = b.shape(x);
  if (shape.size() < 2) fail_invalid("the operand must have a batch and a time axis");
  if (!(b.shape(lengths) == Shape{shape[batch]}))
    fail_differ(
        b.shape(lengths), {shape[batch]},
        fmt::format("sequence_lens must have shape [{}], got {}", shape[batch].str(), to_string(b.type(lengths))));
  check_lengths(b, lengths, shape[time]);
  Shape per_batch(shape.size(), Dim(1)), counter = per_batch;
  per_batch[batch] = shape[batch];
  counter[time] = shape[time];
  auto axis = static_cast<int64_t>(time);
  Val length = reshape(b, lengths, per_batch), t = iota(b, counter, axis, DType::i64);
  Val mirrored = sub(b, sub(b, length, b.scalar(DType::i64, 1)), t);
  Val from = b.emit(ScalarOp::where, {binary(b, ScalarOp::lt, t, length), mirrored, t});
  c.out(b.emit(TensorOp::gather_elements, {x, broadcast(b, from, shape)}, {{"axis", axis}}));
}

}  // namespace fusec::importer

// SPDX-License-Identifier: Apache-2.0
// Imports TopK, Scatter, ScatterElements and ScatterND. Each becomes one node (ir/ops/tensor_ops.def), which the
// optimize stage expands; TopK gathers its values by the indices of that node.

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

}  // namespace fusec::importer

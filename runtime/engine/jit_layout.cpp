// SPDX-License-Identifier: Apache-2.0
// Recognizes dense, transposed and broadcast input layouts for `jit`, and rewrites the imported graph to read such
// memory in place through a transpose and a broadcast. The optimizer and partition then treat these as views.

#include "runtime/engine/jit_layout.h"

#include <algorithm>
#include <numeric>

namespace fusec::runtime {
namespace {

std::size_t index(int axis) { return static_cast<std::size_t>(axis); }

// memory[order] -> the logical axes: transpose to rising axes, insert extents of 1, broadcast.
ir::ValueId restore(ir::Graph& graph, ir::ValueId memory, const Shape& shape, const Layout& layout) {
  std::vector<int> kept = layout.order;
  std::sort(kept.begin(), kept.end());
  std::vector<int64_t> perm;
  for (int axis : kept) {
    perm.push_back(std::find(layout.order.begin(), layout.order.end(), axis) - layout.order.begin());
  }
  ir::ValueId value = memory;
  if (kept != layout.order) value = ir::add_node(graph, ir::TensorOp::transpose, {value}, {{"perm", perm}});
  if (kept.size() == shape.size()) return value;
  Shape with_ones(shape.size(), Dim(1));
  for (int axis : kept) with_ones[index(axis)] = shape[index(axis)];
  value = ir::add_node(graph, ir::TensorOp::reshape, {value}, {{"shape", with_ones}});
  return ir::add_node(graph, ir::TensorOp::broadcast, {value}, {{"shape", shape}});
}

}  // namespace

Layout row_major_layout(int rank) {
  Layout layout;
  layout.order.resize(index(rank));
  std::iota(layout.order.begin(), layout.order.end(), 0);
  return layout;
}

std::optional<Layout> infer_layout(const Tensor& tensor) {
  if (tensor.is_contiguous()) return row_major_layout(tensor.rank());
  const std::vector<int64_t>&shape = tensor.shape(), &strides = tensor.strides();
  Layout layout;
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    if (shape[index(axis)] == 1 || strides[index(axis)] != 0) layout.order.push_back(axis);
  }
  // Axes of extent 1 have no effect on the layout and are ordered first.
  const auto rank_of = [&](int axis) { return shape[index(axis)] == 1 ? INT64_MAX : strides[index(axis)]; };
  std::stable_sort(layout.order.begin(), layout.order.end(), [&](int a, int b) { return rank_of(a) > rank_of(b); });
  int64_t expected = 1;
  for (auto axis = layout.order.rbegin(); axis != layout.order.rend(); ++axis) {
    if (shape[index(*axis)] != 1 && strides[index(*axis)] != expected) return std::nullopt;
    expected *= shape[index(*axis)];
  }
  return layout;
}

Tensor borrow_memory(const Tensor& tensor, const Layout& layout) {
  std::vector<int64_t> shape;
  for (int axis : layout.order) shape.push_back(tensor.shape()[index(axis)]);
  // The runtime only reads inputs.
  return Tensor::borrow(tensor.dtype(), std::move(shape), const_cast<void*>(tensor.data()), {}, tensor.device());
}

ir::Graph with_layouts(const ir::Graph& source, std::span<const Layout> layouts) {
  ir::Graph graph = source;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const ir::ValueId old = source.inputs[i];
    const ir::Type type = source.type(old);
    if (layouts[i] == row_major_layout(type.rank())) continue;
    Shape memory_shape;
    for (int axis : layouts[i].order) memory_shape.push_back(type.shape[index(axis)]);
    const ir::ValueId memory = ir::add_input(graph, source.values[old].name, {type.dtype, memory_shape});
    graph.inputs.pop_back();
    ir::replace_uses(graph, old, restore(graph, memory, type.shape, layouts[i]));
    graph.inputs[i] = memory;
  }
  ir::rebuild_order(graph);
  return graph;
}

}  // namespace fusec::runtime

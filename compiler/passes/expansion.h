// SPDX-License-Identifier: Apache-2.0
// Helpers for passes that expand a composite node into several nodes.
#pragma once

#include <limits>
#include <utility>
#include <vector>

#include "compiler/passes/rewriter.h"
#include "ir/graph/graph.h"

namespace fusec::compiler {

class Expansion {
 public:
  using ValueId = ir::ValueId;
  using ScalarOp = ir::ScalarOp;
  using TensorOp = ir::TensorOp;

  Expansion(ir::Graph& graph, const ir::Node& node) : graph_(graph), node_(node) {}

 protected:
  const ir::Type& type(ValueId v) const { return graph_.type(v); }
  ValueId in(std::size_t i) const { return node_.inputs[i]; }
  ValueId node(ir::Op op, std::vector<ValueId> inputs, ir::Attrs attrs = {}) {
    return add_node(graph_, op, std::move(inputs), std::move(attrs), node_.origin);
  }
  ValueId number(DType dtype, double value) { return add_scalar_constant(graph_, dtype, value); }
  ValueId cast(ValueId v, DType to) { return type(v).dtype == to ? v : node(ScalarOp::cast, {v}, {{"to", to}}); }
  ValueId reshape(ValueId v, const Shape& shape) {
    return type(v).shape == shape ? v : node(TensorOp::reshape, {v}, {{"shape", shape}});
  }
  // Appends axes of extent 1 to v until it has this rank.
  ValueId aligned(ValueId v, std::size_t rank) {
    Shape shape = type(v).shape;
    shape.resize(rank, Dim(1));
    return reshape(v, shape);
  }
  ValueId reduce(TensorOp op, ValueId v, std::size_t axis) {
    return node(op, {v}, {{"axes", std::vector<int64_t>{static_cast<int64_t>(axis)}}});
  }
  // Emits 0, 1, ... along one axis of a tensor of this rank; the other axes have extent 1.
  ValueId count(std::size_t rank, std::size_t axis, const Dim& extent, DType dtype) {
    Shape shape(rank, Dim(1));
    shape[axis] = extent;
    return node(TensorOp::iota, {}, {{"shape", shape}, {"axis", static_cast<int64_t>(axis)}, {"dtype", dtype}});
  }
  // The integer type for counts up to `bound`: i32 if the bound is known to fit, else i64.
  static DType counter(const Dim& bound) {
    return bound.is_const() && bound.value() < std::numeric_limits<int32_t>::max() ? DType::i32 : DType::i64;
  }
  static Shape with(Shape shape, std::size_t axis, const Dim& extent) {
    shape[axis] = extent;
    return shape;
  }
  static Shape inserted(Shape shape, std::size_t axis, const Dim& extent) {
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), extent);
    return shape;
  }

  ir::Graph& graph_;
  const ir::Node node_;
};

}  // namespace fusec::compiler

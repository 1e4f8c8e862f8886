// SPDX-License-Identifier: Apache-2.0
// Adds nodes to a graph for the rules of gradients. What would be the value itself adds no node.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace fusec::ir::gradient {

class Writer {
 public:
  Writer(Graph& graph, std::string origin) : graph_(graph), origin_(std::move(origin)) {}

  const Type& type(ValueId v) const { return graph_.type(v); }
  const Shape& shape(ValueId v) const { return graph_.type(v).shape; }

  ValueId node(Op op, std::vector<ValueId> inputs, Attrs attrs = {});
  ValueId number(DType dtype, double value);
  ValueId count(DType dtype, const Dim& value);  // of rank 0
  ValueId filled(DType dtype, double value, Shape shape);

  ValueId cast(ValueId v, DType dtype);
  ValueId reshape(ValueId v, Shape shape);
  ValueId broadcast(ValueId v, Shape shape);
  ValueId transpose(ValueId v, std::vector<int64_t> perm);
  ValueId reduce(TensorOp op, ValueId v, std::vector<int64_t> axes);
  ValueId matmul(ValueId a, ValueId b, bool transpose_a, bool transpose_b);
  // Undoes a broadcast from `shape`: sums what was repeated.
  ValueId sum_to(ValueId v, const Shape& shape);

  // Elements starts + steps * i of v, which are there.
  ValueId slice(ValueId v, Shape starts, Shape sizes, std::vector<int64_t> steps);
  ValueId flip(ValueId v, std::size_t axis);
  // Elements starts + i of v, and zeros where v has none.
  ValueId part(ValueId v, const Shape& starts, const Shape& sizes);
  ValueId part(ValueId v, std::size_t axis, const Dim& start, const Dim& size);
  // steps[i] - 1 zeros behind each element of axis i.
  ValueId with_zeros(ValueId v, const std::vector<int64_t>& steps);

  Graph& graph() { return graph_; }

 private:
  Graph& graph_;
  const std::string origin_;
};

// 0, 1, ... rank - 1
std::vector<int64_t> all_axes(std::size_t rank);
Shape with(Shape shape, std::size_t axis, Dim extent);

}  // namespace fusec::ir::gradient

// SPDX-License-Identifier: Apache-2.0
// Optimize pass: decomposes topk into counting, so that every element computes its own position:
//
//   place[i] = number of j that come before i;  index[r] = sum of i where place[i] == r
//
// This takes two kernels; no value of the size of the compared pairs is stored. A line of n elements takes n * (n + k)
// comparisons. k = 1 becomes argmax or, for the smallest of integers, argmin.

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"

namespace fusec::compiler {
namespace {

class Topk : Expansion {
 public:
  using Expansion::Expansion;
  ValueId build();

 private:
  ValueId comes_first(ValueId a, ValueId b);
  ValueId places(std::size_t axis);
};

// Whether a comes before b or is equal to it. NaN is greater than all numbers.
ValueId Topk::comes_first(ValueId a, ValueId b) {
  const bool largest = node_.attrs.i("largest") == 1;
  const ValueId order = node(largest ? ScalarOp::ge : ScalarOp::le, {a, b});
  if (!is_float(type(a).dtype)) return order;
  return node(ScalarOp::or_, {order, node(ScalarOp::is_nan, {largest ? a : b})});
}

// The number of elements j of its line that come before element i. Elements equal to i count if j < i.
ValueId Topk::places(std::size_t axis) {
  const Shape shape = type(in(0)).shape;
  const Dim extent = shape[axis];
  const DType dtype = counter(extent);
  const ValueId mine = reshape(in(0), inserted(shape, axis + 1, 1)), other = reshape(in(0), inserted(shape, axis, 1));
  const std::size_t rank = shape.size() + 1;
  const ValueId is_earlier =
      node(ScalarOp::lt, {count(rank, axis + 1, extent, dtype), count(rank, axis, extent, dtype)});
  const ValueId before =
      node(ScalarOp::where, {is_earlier, comes_first(other, mine), node(ScalarOp::not_, {comes_first(mine, other)})});
  return reduce(TensorOp::reduce_sum, cast(before, dtype), axis + 1);
}

ValueId Topk::build() {
  const auto axis = static_cast<std::size_t>(node_.attrs.i("axis"));
  const Dim extent = type(in(0)).shape[axis], k = node_.attrs.dims("k")[0];
  const bool largest = node_.attrs.i("largest") == 1;
  if (k.is(1) && (largest || !is_float(type(in(0)).dtype))) {  // argmin treats NaN as the least
    const ValueId best = node(largest ? TensorOp::argmax : TensorOp::argmin, {in(0)},
                              {{"axis", static_cast<int64_t>(axis)}, {"last", int64_t{0}}});
    return reshape(best, type(node_.output).shape);
  }
  const ValueId place = places(axis);
  const std::size_t rank = type(place).shape.size() + 1;
  const ValueId hit = node(
      ScalarOp::eq, {reshape(place, inserted(type(place).shape, axis, 1)), count(rank, axis, k, type(place).dtype)});
  const ValueId index = count(rank, axis + 1, extent, DType::i64);
  return reduce(TensorOp::reduce_sum, node(ScalarOp::where, {hit, index, number(DType::i64, 0)}), axis + 1);
}

}  // namespace

Result<bool> expand_topk(Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  rewriter.walk([&](NodeId id) {
    const Node node = graph.nodes[id];
    if (node.op == TensorOp::topk) rewriter.replace(node.output, Topk(graph, node).build());
  });
  return rewriter.changed();
}

}  // namespace fusec::compiler

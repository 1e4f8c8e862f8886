// SPDX-License-Identifier: Apache-2.0
// Optimize pass: splits a concat of many operands into a concat of concats of at most kMaxConcatOperands each, in
// order. Each inner concat becomes one kernel, so that the time to compile grows with the number of operands and not
// with its square. Partition makes the outer concat a view into which the inner ones write, so no element is moved
// twice.

#include <algorithm>

#include "compiler/partition/graph_names.h"
#include "compiler/partition/limits.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"

namespace fusec::compiler {
namespace {

// Splits into parts of nearly equal length, so that most of them share one kernel.
ValueId concat_of_parts(Graph& graph, const Node& concat) {
  const size_t n = concat.inputs.size(), parts = (n + kMaxConcatOperands - 1) / kMaxConcatOperands;
  const auto operand = [&](size_t i) { return concat.inputs.begin() + static_cast<std::ptrdiff_t>(i); };
  std::vector<ValueId> outer;
  for (size_t p = 0; p < parts; ++p) {
    const std::vector<ValueId> inner(operand(p * n / parts), operand((p + 1) * n / parts));
    outer.push_back(add_node(graph, TensorOp::concat, inner, concat.attrs, concat.origin));
  }
  return add_node(graph, TensorOp::concat, outer, concat.attrs, concat.origin);
}

}  // namespace

Result<bool> split_concats(Graph& graph, const PassContext&) {
  const auto is_long = [&](NodeId id) {
    const Node& node = graph.nodes[id];
    return node.op == TensorOp::concat && node.inputs.size() > kMaxConcatOperands;
  };
  if (std::none_of(graph.order.begin(), graph.order.end(), is_long)) return false;
  Rewriter rewriter(graph);
  rewriter.walk([&](NodeId id) {
    if (!is_long(id)) return;
    const Node node = graph.nodes[id];  // a copy, because nodes are added
    rewriter.replace(node.output, concat_of_parts(graph, node));
  });
  return rewriter.changed();
}

}  // namespace fusec::compiler

// SPDX-License-Identifier: Apache-2.0
// Optimize pass: replaces values without elements, and reductions and matmuls over no elements, by a constant or a
// broadcast constant. All elements of such a value are equal.

#include <algorithm>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"
#include "ir/eval/graph.h"

namespace fusec::compiler {
namespace {

bool is_empty(const Graph& graph, ir::ValueId v) { return num_elements(graph.type(v).shape).is(0); }

bool combines(const Node& node) { return is_kind(node.op, ir::OpPattern::reduction) || node.op == TensorOp::matmul; }

// Evaluates the node with every symbol set to 1. All elements of the value are equal.
Result<Tensor> sample(const Graph& graph, const Node& node) {
  ir::EvalOptions options;
  for (const std::string& s : graph.symbols) options.symbols[s] = 1;
  std::vector<Tensor> operands;
  for (ir::ValueId v : node.inputs) {
    std::vector<int64_t> shape;
    for (const Dim& d : graph.type(v).shape) shape.push_back(d.eval(options.symbols).value_or(0));
    FUSEC_ASSIGN(Tensor zeros, Tensor::make(graph.type(v).dtype, shape));
    operands.push_back(std::move(zeros));
  }
  return evaluate_node(graph, node, operands, options);
}

}  // namespace

Result<bool> fold_empty(Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  Status status;
  rewriter.walk([&](NodeId id) {
    const Node node = graph.nodes[id];
    if (node.op == TensorOp::constant || !status.ok()) return;
    const bool nothing = is_empty(graph, node.output);
    if (!nothing && !(combines(node) && is_empty(graph, node.inputs[0]))) return;
    const ir::Type type = graph.type(node.output);
    Result<Tensor> one = Tensor::make(type.dtype, {});
    if (!nothing) {
      const Result<Tensor> value = sample(graph, node);
      if (!value.ok() || !one.ok() || value->num_elements() == 0) return;
      std::copy_n(value->as<char>(), one->bytes(), one->as<char>());
    }
    if (nothing && is_const(type.shape)) {
      std::vector<int64_t> shape;
      for (const Dim& d : type.shape) shape.push_back(d.value());
      one = Tensor::make(type.dtype, shape);
    }
    if (!one.ok()) {
      status = one.status();
      return;
    }
    const bool whole = one->rank() == type.rank();
    const ir::ValueId constant = add_constant(graph, std::move(*one), node.origin);
    rewriter.replace(
        node.output,
        whole ? constant : add_node(graph, TensorOp::broadcast, {constant}, {{"shape", type.shape}}, node.origin));
  });
  if (!status.ok()) return status;
  return rewriter.changed();
}

}  // namespace fusec::compiler

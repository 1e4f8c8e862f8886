// SPDX-License-Identifier: Apache-2.0
// Optimize pass: evaluates nodes whose operands are all constants, within a budget of elements. A node whose evaluation
// fails is left in the graph, because it must fail only if it runs.

#include <algorithm>

#include "compiler/partition/domain.h"
#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"
#include "ir/eval/graph.h"

namespace fusec::compiler {
namespace {

// The number of elements that folding may make in total, so that the constants of a model do not grow without bound.
constexpr int64_t kBudget = int64_t{1} << 28;
// A broadcast or iota of more elements than this is cheaper to compute where it is read than to store.
constexpr int64_t kMaxGenerated = 4096;

using Users = ir::IdVector<ir::ValueId, std::vector<NodeId>>;

bool grows(const Graph& graph, const Node& node, int64_t elements) {
  int64_t in = 0;
  for (ir::ValueId v : node.inputs) in += graph.constant(v)->num_elements();
  return elements > kMaxGenerated && elements > 2 * in;
}

// Whether the node converts the matrix of a product that a kernel computes, which multiplies 16-bit numbers.
// `any`: as is_product_sum has it.
bool converts_factor(const Graph& graph, const Users& users, const Node& node, bool any) {
  const auto is_product = [&](NodeId id) {
    const Node& mul = graph.nodes[id];
    const std::vector<NodeId>& sums = users[mul.output];
    return mul.op == ScalarOp::mul && sums.size() == 1 && is_product_sum(graph, graph.nodes[sums[0]], any);
  };
  return widens(graph, node) && std::any_of(users[node.output].begin(), users[node.output].end(), is_product);
}

bool is_foldable(const Graph& graph, const Node& node) {
  if (!is_const(graph.type(node.output).shape) || is_kind(node.op, ir::OpPattern::opaque)) return false;
  if (node.op == TensorOp::dim && !is_const(node.attrs.dims("value"))) return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ir::ValueId v) { return graph.is_constant(v); });
}

}  // namespace

Result<bool> fold_constants(Graph& graph, const PassContext& context) {
  const bool any = multiplies_by_kernels(context.target, context.options);
  const Users readers = users(graph);
  Rewriter rewriter(graph);
  int64_t spent = 0;
  rewriter.walk([&](NodeId id) {
    const Node node = graph.nodes[id];
    if (node.op == TensorOp::constant || !is_foldable(graph, node) || converts_factor(graph, readers, node, any) ||
        dequantizes_factor(graph, readers, node))
      return;
    const int64_t elements = num_elements(graph.type(node.output).shape).value();
    if (spent + elements > kBudget || grows(graph, node, elements)) return;
    std::vector<Tensor> operands;
    for (ir::ValueId v : node.inputs) operands.push_back(*graph.constant(v));
    // An error, e.g. an index out of range, must be reported only if the node runs.
    Result<Tensor> value = evaluate_node(graph, node, operands);
    if (!value.ok()) return;
    Result<Tensor> dense = ir::contiguous(*value);
    if (!dense.ok()) return;
    spent += elements;
    rewriter.replace(node.output, add_constant(graph, std::move(*dense), node.origin));
  });
  return rewriter.changed();
}

}  // namespace fusec::compiler

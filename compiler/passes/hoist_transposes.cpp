// SPDX-License-Identifier: Apache-2.0
// Optimize pass: moves a transpose of the rows of a product in front of the product, where another one has put them in
// that order. What adds to the product then reads it as it is stored.
//
//   transpose(reshape(f(reshape(transpose(x)) w)))  ->  f(reshape(transpose(transpose(x))) w)
//
// f: scalar ops with constants that all rows share, such as a bias. The first reshape merges the axes of rows and those
// of terms each, the second one splits the rows again. Exporters write attentions like this whose rows lie with the
// position first.

#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"

namespace fusec::compiler {
namespace {

class Hoisting {
 public:
  explicit Hoisting(Graph& graph) : graph_(graph), users_(users(graph)), rewriter_(graph) {}

  bool run() {
    rewriter_.walk([&](NodeId id) {
      const Node node = graph_.nodes[id];
      if (!(node.op == TensorOp::transpose)) return;
      if (const ValueId value = hoisted(node); value.valid()) rewriter_.replace(node.output, value);
    });
    return rewriter_.changed();
  }

 private:
  const Shape& shape(ValueId v) const { return graph_.type(v).shape; }

  // The node that makes the value, if it is one of this op whose result nothing else reads.
  std::optional<Node> producer(ValueId v, TensorOp op) const {
    const Node* const node = graph_.producer(v);
    return node != nullptr && node->op == op && is_read_once(v) ? std::optional(*node) : std::nullopt;
  }
  bool is_read_once(ValueId v) const { return v.index < users_.size() && users_[v].size() == 1 && !is_output(v); }
  bool is_output(ValueId v) const {
    return std::find(graph_.outputs.begin(), graph_.outputs.end(), v) != graph_.outputs.end();
  }

  ValueId hoisted(const Node& node) {
    std::vector<int64_t> perm = node.attrs.ints("perm");
    const std::size_t rows = perm.size() - 1;
    if (perm.back() != static_cast<int64_t>(rows)) return {};
    const std::optional<Node> split = producer(node.inputs[0], TensorOp::reshape);
    if (!split) return {};
    std::vector<Node> scalars;  // the last one first
    const std::optional<Node> product = find_product(split->inputs[0], scalars);
    if (!product) return {};
    const std::optional<Node> merge = producer(product->inputs[0], TensorOp::reshape);
    if (!merge) return {};
    const std::optional<Node> first = producer(merge->inputs[0], TensorOp::transpose);
    if (!first || !splits_like(*split, *merge, rows)) return {};
    const Shape from = shape(first->output);
    Shape to;
    for (std::size_t i = 0; i < rows; ++i) to.push_back(from[static_cast<std::size_t>(perm[i])]);
    to.push_back(shape(merge->output).back());
    for (std::size_t i = rows + 1; i < from.size(); ++i) perm.push_back(static_cast<int64_t>(i));
    for (int64_t& axis : perm) axis = first->attrs.ints("perm")[static_cast<std::size_t>(axis)];
    ValueId v = add_node(graph_, TensorOp::transpose, {first->inputs[0]}, {{"perm", perm}}, node.origin);
    v = add_node(graph_, TensorOp::reshape, {v}, {{"shape", to}}, merge->origin);
    v = add_node(graph_, TensorOp::matmul, {v, product->inputs[1]}, product->attrs, product->origin);
    for (auto scalar = scalars.rbegin(); scalar != scalars.rend(); ++scalar) {
      std::vector<ValueId> inputs = scalar->inputs;
      for (ValueId& input : inputs)
        if (!is_shared_by_rows(input)) input = v;
      v = add_node(graph_, scalar->op, inputs, scalar->attrs, scalar->origin);
    }
    return v;
  }

  // Whether one reshape merges the first `rows` axes, and those behind them, and the other one splits the former again.
  bool splits_like(const Node& split, const Node& merge, std::size_t rows) const {
    const Shape& from = shape(merge.inputs[0]);
    const Shape& to = shape(split.output);
    if (from.size() <= rows || !std::equal(to.begin(), to.end() - 1, from.begin())) return false;
    Dim terms(1);
    for (std::size_t i = rows; i < from.size(); ++i) terms = terms * from[i];
    return terms == shape(merge.output).back() && to.back() == shape(split.inputs[0]).back();
  }

  // The product with a constant matrix of which the value is made, and the scalar ops between them.
  std::optional<Node> find_product(ValueId v, std::vector<Node>& scalars) const {
    constexpr std::size_t kMaxScalars = 4;
    while (is_read_once(v)) {
      const Node* const node = graph_.producer(v);
      if (node == nullptr) return std::nullopt;
      if (node->op == TensorOp::matmul) {
        const bool by_matrix = graph_.is_constant(node->inputs[1]) && shape(node->inputs[1]).size() == 2;
        return by_matrix && node->attrs.i("transpose_a") == 0 ? std::optional(*node) : std::nullopt;
      }
      if (!node->op.is_scalar() || scalars.size() == kMaxScalars) return std::nullopt;
      std::optional<ValueId> operand;
      for (const ValueId input : node->inputs) {
        if (is_shared_by_rows(input)) continue;
        if (operand) return std::nullopt;
        operand = input;
      }
      if (!operand) return std::nullopt;
      scalars.push_back(*node);
      v = *operand;
    }
    return std::nullopt;
  }

  bool is_shared_by_rows(ValueId v) const { return graph_.is_constant(v) && shape(v).size() <= 1; }

  Graph& graph_;
  const ir::IdVector<ValueId, std::vector<NodeId>> users_;  // before the pass
  Rewriter rewriter_;
};

}  // namespace

Result<bool> hoist_transposes(Graph& graph, const PassContext&) { return Hoisting(graph).run(); }

}  // namespace fusec::compiler

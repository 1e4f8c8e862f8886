// SPDX-License-Identifier: Apache-2.0
// Optimize pass: computes the gates of f16 and bf16 models in f32. A gate is a small tensor that is computed from a
// reduction through convolutions or matmuls with constants, and that scales a large tensor, as in
// squeeze-and-excitation. Rounding a gate affects a whole channel, which no later mean evens out; keeping the gate in
// f32 costs almost nothing.
//
//   y = x * sigmoid(conv(relu(conv(mean(x)))))  ->  y = cast(cast(x) * sigmoid(conv(relu(conv(mean(cast(x)))))))

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"

namespace fusec::compiler {

using ir::OpPattern;

namespace {

constexpr int64_t kMuchSmaller = 16;  // times fewer elements

struct Elements {
  int64_t known = 1;
  std::vector<std::string> symbolic;  // sorted
};

Elements count_elements(const Shape& shape) {
  Elements e;
  for (const Dim& extent : shape) {
    if (extent.is_const()) {
      e.known *= extent.value();
    } else {
      e.symbolic.push_back(extent.str());
    }
  }
  std::sort(e.symbolic.begin(), e.symbolic.end());
  return e;
}

// A symbolic extent counts as large.
bool is_much_smaller(const Shape& small, const Shape& large) {
  const Elements s = count_elements(small), l = count_elements(large);
  if (!std::includes(l.symbolic.begin(), l.symbolic.end(), s.symbolic.begin(), s.symbolic.end())) return false;
  return l.known >= s.known * (l.symbolic.size() > s.symbolic.size() ? 1 : kMuchSmaller);
}

// Finds the values between a reduction and the gate that is computed from it.
class Gates {
 public:
  explicit Gates(const Graph& graph) : graph_(graph) {
    for (const NodeId id : graph.order) visit(graph.nodes[id]);
    for (auto it = graph.order.rbegin(); it != graph.order.rend(); ++it) {
      const Node& node = graph.nodes[*it];
      if (!wide_.contains(node.output) || is_source(node)) continue;
      for (const ValueId v : node.inputs) {
        if (paths_.contains(v)) wide_[v] = true;
      }
    }
  }

  bool empty() const { return wide_.empty(); }
  bool is_wide(ValueId v) const { return wide_.contains(v); }
  // Whether the node applies a gate to a large tensor.
  bool is_scaled(const Node& node) const { return scaled_.contains(node.output); }

 private:
  bool is_small_reduction(const Node& node) const {
    if (!is_kind(node.op, OpPattern::reduction) || node.inputs.size() != 1) return false;
    return is_16_bit_float(graph_.type(node.inputs[0]).dtype) &&
           is_much_smaller(graph_.type(node.output).shape, graph_.type(node.inputs[0]).shape);
  }
  bool is_source(const Node& node) const { return is_small_reduction(node) && !paths_.contains(node.inputs[0]); }

  static bool is_product(const Node& node) { return !node.op.is_scalar() && ir::is_product(node.op.tensor()); }

  bool may_pass(const Node& node) const {
    const bool kind =
        node.op.is_scalar() ? !(node.op == ScalarOp::cast) : is_product(node) || is_kind(node.op, OpPattern::index_map);
    return kind && std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
             return is_16_bit_float(graph_.type(v).dtype) && (paths_.contains(v) || graph_.is_constant(v));
           });
  }

  void visit(const Node& node) {
    if (!is_16_bit_float(graph_.type(node.output).dtype) || graph_.is_constant(node.output)) return;
    if (is_small_reduction(node)) {
      paths_[node.output] = false;
    } else if (may_pass(node)) {
      bool anchors = is_product(node);
      for (const ValueId v : node.inputs) anchors = anchors || (paths_.contains(v) && paths_.at(v));
      paths_[node.output] = anchors;
    } else if (node.op.is_scalar()) {
      for (const ValueId v : node.inputs) apply(node, v);
    }
  }

  void apply(const Node& node, ValueId gate) {
    const auto path = paths_.find(gate);
    if (path == paths_.end() || !path->second) return;
    if (!is_much_smaller(graph_.type(gate).shape, graph_.type(node.output).shape)) return;
    wide_[gate] = scaled_[node.output] = true;
  }

  const Graph& graph_;
  std::map<ValueId, bool> paths_;  // whether a convolution or matmul lies on the path
  std::map<ValueId, bool> wide_, scaled_;
};

class Widener {
 public:
  Widener(Graph& graph, const Gates& gates) : gates_(gates), rewriter_(graph) {}

  bool run() {
    rewriter_.walk([&](NodeId id) {
      const Node node = rewriter_.graph().nodes[id];
      const bool wide = gates_.is_wide(node.output);
      if (!wide && !gates_.is_scaled(node)) return;
      std::vector<ValueId> inputs;
      for (const ValueId v : node.inputs) inputs.push_back(widened(v));
      const ValueId result = add_node(rewriter_.graph(), node.op, inputs, node.attrs, node.origin);
      const ValueId narrow = cast(result, rewriter_.graph().type(node.output).dtype);
      if (wide) wide_[narrow] = result;
      rewriter_.replace(node.output, narrow);
    });
    return rewriter_.changed();
  }

 private:
  ValueId cast(ValueId v, DType to) { return add_node(rewriter_.graph(), ScalarOp::cast, {v}, {{"to", to}}, ""); }
  ValueId widened(ValueId v) {
    if (const auto it = wide_.find(v); it != wide_.end()) return it->second;
    return is_16_bit_float(rewriter_.graph().type(v).dtype) ? cast(v, DType::f32) : v;
  }

  const Gates& gates_;
  Rewriter rewriter_;
  std::map<ValueId, ValueId> wide_;  // keyed by the narrow value that other nodes use
};

}  // namespace

Result<bool> widen_gates(Graph& graph, const PassContext& context) {
  if (context.options.numerics == Numerics::exact) return false;
  const Gates gates(graph);
  return !gates.empty() && Widener(graph, gates).run();
}

}  // namespace fusec::compiler

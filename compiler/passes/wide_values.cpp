// SPDX-License-Identifier: Apache-2.0
// Finds the f32 values that convert_precision must keep in f32, by one forward and one backward walk over the graph
// (optimize stage).

#include "compiler/passes/wide_values.h"

#include <algorithm>
#include <cmath>

#include "compiler/partition/graph_names.h"

namespace fusec::compiler {

using ir::OpFlag;
using ir::OpPattern;

namespace {

bool is_rounding(const Node& node) { return node.op.is_scalar() && has(node.op.scalar(), OpFlag::makes_integers); }

bool casts_to_integer(const Graph& graph, const Node& node) {
  return node.op == ScalarOp::cast && is_int(graph.type(node.output).dtype);
}

bool is_scaling(const Node& node) { return node.op == ScalarOp::mul || node.op == ScalarOp::div; }

bool is_index_map(const Node& node) { return is_kind(node.op, OpPattern::index_map); }
bool is_anchor(const Node& node) { return is_kind(node.op, OpPattern::anchor); }

// Whether the result is an integer if the operands are.
bool keeps_integers(const Node& node) {
  if (node.op.is_scalar()) return has(node.op.scalar(), OpFlag::keeps_integers);
  if (is_anchor(node)) return node.op == TensorOp::max_pool || ir::is_product(node.op.tensor());
  if (is_kind(node.op, OpPattern::reduction)) return !(node.op == TensorOp::reduce_mean);
  return is_index_map(node);
}

}  // namespace

WideValues::WideValues(const Graph& graph, double most)
    : graph_(graph),
      most_(most),
      integral_(graph.values.size()),
      scaled_(graph.values.size()),
      needed_(graph.values.size()) {
  for (const ir::NodeId id : graph.order) {
    const Node& node = graph.nodes[id];
    if (graph.type(node.output).dtype != DType::f32 || graph.is_constant(node.output)) continue;
    integral_[node.output] = makes_integers(node);
    scaled_[node.output] = !integral_[node.output] && makes_scaled(node);
  }
  for (auto id = graph.order.rbegin(); id != graph.order.rend(); ++id) {
    const Node& node = graph.nodes[*id];
    const bool passes = needed_[node.output] && !is_scaling(node);
    if (!casts_to_integer(graph, node) && !passes && !is_rounding(node)) continue;
    for (const ValueId v : node.inputs) need(v);
  }
}

// Marks a value that contributes to an integer. Results of anchors are not marked, because they are stored.
void WideValues::need(ValueId v) {
  const Node* producer = graph_.producer(v);
  if (graph_.type(v).dtype != DType::f32 || producer == nullptr || is_anchor(*producer) || graph_.is_constant(v))
    return;
  needed_[v] = true;
}

bool WideValues::is_integral_constant(ValueId v) const {
  const Tensor* data = graph_.constant(v);
  if (data == nullptr || !data->is_contiguous()) return false;
  const float* first = data->as<float>();
  return std::all_of(first, first + data->num_elements(),
                     [&](float x) { return std::fabs(x) <= most_ && x == std::trunc(x); });
}

bool WideValues::is_integral_operand(ValueId v) const {
  return graph_.type(v).dtype != DType::f32 || integral_[v] || is_integral_constant(v);
}

bool WideValues::makes_integers(const Node& node) const {
  if (node.op == ScalarOp::cast) return is_int(graph_.type(node.inputs[0]).dtype);
  if (node.op == TensorOp::iota || node.op == TensorOp::dim) return true;
  if (is_rounding(node)) return true;
  if (!keeps_integers(node)) return false;
  const auto known = [&](ValueId v) { return integral_[v]; };
  return std::any_of(node.inputs.begin(), node.inputs.end(), known) &&
         std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return is_integral_operand(v); });
}

bool WideValues::makes_scaled(const Node& node) const {
  const auto from_integers = [&](ValueId v) { return integral_[v] || scaled_[v]; };
  if (is_scaling(node)) return std::any_of(node.inputs.begin(), node.inputs.end(), from_integers);
  return is_index_map(node) && !node.inputs.empty() && from_integers(node.inputs[0]) && node.inputs.size() == 1;
}

bool WideValues::computes_wide(const Node& node) const {
  if (is_wide(node.output) || casts_to_integer(graph_, node)) return true;
  if (is_kind(node.op, OpPattern::opaque)) return true;  // the function of the host takes the types of the model
  return !is_anchor(node) &&
         std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return integral_[v]; });
}

}  // namespace fusec::compiler

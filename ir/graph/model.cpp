// SPDX-License-Identifier: Apache-2.0
// Wraps a finished graph as a public Model with the names, types and indexed extents of its inputs and outputs, at the
// end of import and in GraphBuilder::finish. Indexed extents follow integer inputs to gathers and scatters; they let
// callers create valid inputs.

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ir/graph/model_internal.h"

namespace fusec::ir {

Model make_model(Graph graph) {
  Model model;
  model.symbols = graph.symbols;
  for (const auto& [extent, range] : graph.limits)
    if (const auto symbol = extent.as_symbol()) model.ranges.emplace(*symbol, range);
  std::vector<std::vector<Dim>> indexed = indexed_extents(graph);
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const Value& value = graph.values[graph.inputs[i]];
    model.inputs.push_back({value.name, value.type.dtype, value.type.shape, std::move(indexed[i])});
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const Type& type = graph.type(graph.outputs[i]);
    model.outputs.push_back({graph.output_names[i], type.dtype, type.shape});
  }
  model.graph = std::make_shared<const Graph>(std::move(graph));
  return model;
}

namespace {

// Tracks which inputs flow, as integers, into each value.
class IndexFlow {
 public:
  explicit IndexFlow(const Graph& graph) : extents(graph.inputs.size()), graph_(graph) {
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
      if (is_int(graph.type(graph.inputs[i]).dtype)) sources_[graph.inputs[i]] = {i};
    }
    if (sources_.empty()) return;
    for (const NodeId id : graph.order) visit(graph.nodes[id]);
  }
  std::vector<std::vector<Dim>> extents;

 private:
  void visit(const Node& node) {
    const bool gathers = !node.op.is_scalar() && (node.op == TensorOp::gather || node.op == TensorOp::gather_elements ||
                                                  node.op == TensorOp::gather_nd);
    const bool scatters = node.op == TensorOp::scatter_elements || node.op == TensorOp::scatter_nd;
    if (gathers || scatters) note(node);
    const bool moves = node.op.is_scalar() || is_kind(node.op, OpPattern::index_map);
    if (!moves || !is_int(graph_.type(node.output).dtype)) return;
    std::set<std::size_t> all;
    for (std::size_t i = 0; i < (gathers ? 1 : node.inputs.size()); ++i) {
      const auto it = sources_.find(node.inputs[i]);
      if (it != sources_.end()) all.insert(it->second.begin(), it->second.end());
    }
    if (!all.empty()) sources_[node.output] = std::move(all);
  }

  void note(const Node& node) {
    const auto it = sources_.find(node.inputs[1]);
    if (it == sources_.end()) return;
    const Shape& data = graph_.type(node.inputs[0]).shape;
    const auto [first, last] = indexed_axes(node);
    for (std::size_t axis = first; axis <= last && axis < data.size(); ++axis) {
      for (const std::size_t input : it->second) {
        std::vector<Dim>& list = extents[input];
        if (std::find(list.begin(), list.end(), data[axis]) == list.end()) list.push_back(data[axis]);
      }
    }
  }

  std::pair<std::size_t, std::size_t> indexed_axes(const Node& node) const {
    if (node.op != TensorOp::gather_nd && node.op != TensorOp::scatter_nd) {
      const auto axis = static_cast<std::size_t>(node.attrs.i("axis"));
      return {axis, axis};
    }
    const auto first =
        node.op == TensorOp::scatter_nd ? std::size_t{0} : static_cast<std::size_t>(node.attrs.i("batch_dims"));
    const Dim& depth = graph_.type(node.inputs[1]).shape.back();
    const int64_t axes = depth.is_const() ? std::max<int64_t>(depth.value(), 1) : 1;
    return {first, first + static_cast<std::size_t>(axes) - 1};
  }

  const Graph& graph_;
  std::map<ValueId, std::set<std::size_t>> sources_;
};

}  // namespace

std::vector<std::vector<Dim>> indexed_extents(const Graph& graph) { return IndexFlow(graph).extents; }

}  // namespace fusec::ir

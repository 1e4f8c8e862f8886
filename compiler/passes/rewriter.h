// SPDX-License-Identifier: Apache-2.0
// Walks a graph forward while replacing values. This takes linear time, which replacing all uses of each value would
// not.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace fusec::compiler {

class Rewriter {
 public:
  explicit Rewriter(ir::Graph& graph) : graph_(graph) {}

  ir::Graph& graph() { return graph_; }
  // Visits the nodes in order, with their operands already replaced. A visit may add nodes.
  void walk(const std::function<void(ir::NodeId)>& visit) {
    const std::vector<ir::NodeId> order = graph_.order;
    for (ir::NodeId id : order) {
      for (ir::ValueId& v : graph_.nodes[id].inputs) v = now(v);
      visit(id);
    }
    for (ir::ValueId& v : graph_.outputs) v = now(v);
  }
  void replace(ir::ValueId from, ir::ValueId to) {
    if (from == to) return;
    map_[from] = to;
    changed_ = true;
  }
  ir::ValueId now(ir::ValueId v) const {
    for (auto it = map_.find(v); it != map_.end(); it = map_.find(v)) v = it->second;
    return v;
  }
  bool changed() const { return changed_; }

 private:
  ir::Graph& graph_;
  std::map<ir::ValueId, ir::ValueId> map_;
  bool changed_ = false;
};

// Counts the uses of every value by nodes in order and by the graph's outputs.
ir::IdVector<ir::ValueId, int> use_counts(const ir::Graph& graph);

}  // namespace fusec::compiler

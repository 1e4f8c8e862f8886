// SPDX-License-Identifier: Apache-2.0
// Lower: takes a region apart at one of its values. The nodes that the value needs are the first part. What the other
// outputs need, down to that value, is the second part; nodes that both need are in both.

#include "compiler/lower/split.h"

#include <algorithm>
#include <optional>
#include <set>

#include "compiler/partition/domain.h"
#include "ir/kernel/combiner.h"
#include "ir/ops/op.h"

namespace fusec::compiler {

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

namespace {

constexpr int kHeavyProducer = 20;  // cost of what computes a value, in the unit of ScalarOpInfo::cost

class Splitter {
 public:
  Splitter(const Graph& graph, const Region& region)
      : graph_(graph), region_(region), nodes_(region.nodes.begin(), region.nodes.end()) {}

  std::vector<SplitRegion> run() const {
    std::optional<NodeId> reused, reduced;
    int most = kHeavyProducer - 1;
    for (const NodeId id : region_.nodes) {
      if (!suits(id)) continue;
      const std::set<NodeId> readers = find_readers(id);
      if (is_reduction(graph_, id) && !reduced && leads_to_reduction(id)) reduced = id;
      const int cost = sum_costs(needed_by(graph_.nodes[id].output, {}));
      if (readers.size() > 1 && cost > most && leads_to_reduction(id)) reused = id, most = cost;
    }
    std::vector<SplitRegion> splits;
    if (reused) add(splits, *reused, "which several nodes read");
    if (reduced && reduced != reused) add(splits, *reduced, "which another reduction needs");
    return splits;
  }

 private:
  // Whether memory can hold the result as it is, and does not hold it anyway.
  bool suits(NodeId id) const {
    const ValueId value = graph_.nodes[id].output;
    const DType dtype = graph_.type(value).dtype;
    const bool is_output = std::find(region_.outputs.begin(), region_.outputs.end(), value) != region_.outputs.end();
    return !is_output && compute_type(dtype) == dtype && (graph_.nodes[id].op.is_scalar() || is_reduction(graph_, id));
  }

  // The nodes of the region that `value` needs, not looking behind `end`. Index maps outside the region lie between.
  std::set<NodeId> needed_by(ValueId value, ValueId end) const {
    std::set<NodeId> needed;
    collect(value, end, needed);
    return needed;
  }
  void collect(ValueId value, ValueId end, std::set<NodeId>& needed) const {
    const Node* node = graph_.producer(value);
    if (value == end || node == nullptr || !computed_in(graph_, nodes_, value)) return;
    const NodeId id = graph_.values[value].producer;
    if (nodes_.contains(id) && !needed.insert(id).second) return;
    for (const ValueId input : node->inputs) collect(input, end, needed);
  }

  // The nodes of the region that read the node's result, directly or through index maps.
  std::set<NodeId> find_readers(NodeId id) const {
    std::set<NodeId> readers;
    for (const NodeId other : region_.nodes)
      for (const ValueId input : graph_.nodes[other].inputs)
        if (reads_through_maps(input, graph_.nodes[id].output)) readers.insert(other);
    return readers;
  }
  bool reads_through_maps(ValueId from, ValueId value) const {
    for (;;) {
      if (from == value) return true;
      const Node* node = graph_.producer(from);
      if (node == nullptr || node->op.is_scalar() || !is_plain_map(node->op)) return false;
      from = node->inputs[0];
    }
  }

  bool leads_to_reduction(NodeId id) const {
    return std::any_of(region_.nodes.begin(), region_.nodes.end(), [&](NodeId other) {
      return other != id && is_reduction(graph_, other) && needed_by(graph_.nodes[other].output, {}).contains(id);
    });
  }

  int sum_costs(const std::set<NodeId>& nodes) const {
    int cost = 0;
    for (const NodeId id : nodes)
      if (graph_.nodes[id].op.is_scalar()) cost += ir::info(graph_.nodes[id].op.scalar()).cost;
    return cost;
  }

  Region part(const std::set<NodeId>& nodes, std::vector<ValueId> outputs) const {
    Region out;
    for (const NodeId id : region_.nodes)
      if (nodes.contains(id)) out.nodes.push_back(id);
    out.outputs = std::move(outputs);
    return out;
  }

  void add(std::vector<SplitRegion>& splits, NodeId at, const std::string& reason) const {
    const ValueId between = graph_.nodes[at].output;
    const std::set<NodeId> first = needed_by(between, {});
    std::set<NodeId> second;
    std::vector<ValueId> early = {between}, late;
    for (const ValueId output : region_.outputs) {
      const bool is_early = first.contains(graph_.values[output].producer);
      (is_early ? early : late).push_back(output);
      if (!is_early) second.merge(needed_by(output, between));
    }
    if (late.empty() || second.empty()) return;
    splits.push_back({part(first, early), part(second, late), between,
                      "in two kernels, behind " + std::string(graph_.nodes[at].op.name()) + ", " + reason});
  }

  const Graph& graph_;
  const Region& region_;
  const std::set<NodeId> nodes_;
};

// A reduction whose order matters, without names of variables.
struct PartSum {
  ir::Combiner combiner;
  int64_t lanes, chunk;
  std::vector<ir::IndexExpr> extents;
  bool operator==(const PartSum&) const = default;
};

// False: there is a loop whose extent depends on another one.
bool collect_part_sums(const ir::Kernel& kernel, std::vector<PartSum>& sums) {
  bool is_plain = true;
  for_each_stmt(kernel.body, [&](const ir::Stmt& stmt) {
    if (std::holds_alternative<ir::Scan>(stmt.v)) is_plain = false;
    const auto* reduce = std::get_if<ir::Reduce>(&stmt.v);
    if (reduce == nullptr || ir::is_order_free(reduce->combiner, kernel.regs[reduce->dst[0]].dtype)) return;
    PartSum sum{reduce->combiner, reduce->tree.lanes, reduce->tree.chunk, {}};
    for (const ir::LoopHead& loop : reduce->loops) {
      is_plain &= loop.extent.is_const();
      sum.extents.push_back(loop.extent);
    }
    sums.push_back(std::move(sum));
  });
  return is_plain;
}

}  // namespace

std::vector<SplitRegion> list_splits(const Graph& graph, const Region& region) { return Splitter(graph, region).run(); }

bool sums_floats(const Graph& graph, const Region& region) {
  return std::any_of(region.nodes.begin(), region.nodes.end(), [&](NodeId id) {
    if (!is_reduction(graph, id)) return false;
    const Node& node = graph.nodes[id];
    const ir::TensorOp op = node.op.tensor();
    const bool chooses = op == ir::TensorOp::reduce_max || op == ir::TensorOp::reduce_min;
    return !chooses && is_float(graph.type(node.inputs[0]).dtype);
  });
}

bool parts_add_alike(const ir::Kernel& whole, const std::vector<const ir::Kernel*>& parts) {
  std::vector<PartSum> of_whole, of_parts;
  bool is_plain = collect_part_sums(whole, of_whole);
  for (const ir::Kernel* part : parts) is_plain &= collect_part_sums(*part, of_parts);
  return is_plain && std::is_permutation(of_whole.begin(), of_whole.end(), of_parts.begin(), of_parts.end());
}

}  // namespace fusec::compiler

// SPDX-License-Identifier: Apache-2.0
// Runs the partition stage: forms groups, assigns storage, orders the groups as regions and lists the fusion boundaries
// between them. Symbols that clash with names of kernels are renamed meanwhile.

#include "compiler/partition/partition.h"

#include <algorithm>
#include <queue>

#include "compiler/partition/domain.h"
#include "compiler/partition/graph_names.h"
#include "compiler/partition/groups.h"

namespace fusec::compiler {
namespace {

class RegionWriter {
 public:
  RegionWriter(Groups& groups, const Target& target) : groups_(groups), graph_(groups.graph), target_(target) {}

  Result<Partition> write() {
    Partition p;
    p.storage = assign_buffers(groups_, target_);
    FUSEC_ASSIGN(std::vector<int> order, schedule());
    for (int g : order) p.regions.push_back(region(groups_.all[static_cast<size_t>(g)]));
    for (int g : order) boundaries(g, p.boundaries);
    return p;
  }

 private:
  // The values that a node of the group reads. A view that was copied for a library is read through, as lower does, if
  // the group itself makes the value behind it: the copy is made from the group's result.
  std::vector<ValueId> bases(const Group& group, ValueId value) const {
    std::vector<ValueId> result;
    for (ValueId base : groups_.bases(value)) {
      const auto behind =
          reads_through(group, base) ? bases(group, graph_.producer(base)->inputs[0]) : std::vector<ValueId>{base};
      result.insert(result.end(), behind.begin(), behind.end());
    }
    return result;
  }

  bool reads_through(const Group& group, ValueId base) const {
    const Node* node = graph_.producer(base);
    if (node == nullptr || node->op.is_scalar() || !is_plain_map(node->op)) return false;
    const std::set<NodeId> inside(group.nodes.begin(), group.nodes.end());
    return !inside.contains(graph_.values[base].producer) && computed_in(graph_, inside, base);
  }

  std::set<int> find_input_groups(int g) const {
    std::set<int> result;
    const Group& group = groups_.all[static_cast<size_t>(g)];
    for (NodeId id : group.nodes)
      for (ValueId input : graph_.nodes[id].inputs)
        for (ValueId base : bases(group, input))
          if (const int p = groups_.group_of_value(base); p != kNoGroup && p != g) result.insert(p);
    return result;
  }

  // Orders groups after the groups they read; among those that are ready, the earliest in the model comes first.
  Result<std::vector<int>> schedule() const {
    std::map<int, int> waiting;
    std::map<int, std::vector<int>> users;
    using Ready = std::pair<uint32_t, int>;
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    for (int g = 0; g < static_cast<int>(groups_.all.size()); ++g) {
      const Group& group = groups_.all[static_cast<size_t>(g)];
      if (!group.alive) continue;
      const auto inputs = find_input_groups(g);
      waiting[g] = static_cast<int>(inputs.size());
      for (int p : inputs) users[p].push_back(g);
      if (inputs.empty()) ready.emplace(group.first, g);
    }
    std::vector<int> order;
    while (!ready.empty()) {
      const int g = ready.top().second;
      ready.pop();
      order.push_back(g);
      for (int r : users[g])
        if (--waiting[r] == 0) ready.emplace(groups_.all[static_cast<size_t>(r)].first, r);
    }
    if (order.size() != waiting.size()) return Status(StatusCode::internal, "partition made a cycle of regions");
    return order;
  }

  Region region(const Group& group) const {
    Region r;
    r.kind = group.kind;
    r.nodes = group.nodes;
    r.epilogues = group.epilogues;
    r.bias = group.bias;
    r.outputs =
        group.kind == RegionKind::anchor ? std::vector<ValueId>{group.result} : groups_.find_outputs(group.nodes);
    const std::set<NodeId> inside(group.nodes.begin(), group.nodes.end());
    for (NodeId id : group.nodes)
      for (ValueId input : graph_.nodes[id].inputs)
        for (ValueId base : bases(group, input)) {
          const NodeId producer = graph_.values[base].producer;
          if (producer.valid() && inside.contains(producer)) continue;
          if (std::find(r.inputs.begin(), r.inputs.end(), base) == r.inputs.end()) r.inputs.push_back(base);
        }
    return r;
  }

  void boundaries(int g, std::vector<FusionBoundary>& out) const {
    const Group& group = groups_.all[static_cast<size_t>(g)];
    for (NodeId id : group.nodes) {
      std::set<ValueId> seen;
      for (ValueId input : graph_.nodes[id].inputs)
        for (ValueId base : bases(group, input)) {
          const int p = groups_.group_of_value(base);
          if (p == kNoGroup || p == g || !seen.insert(base).second) continue;
          out.push_back({base, id, groups_.reason(base, id)});
        }
    }
  }

  Groups& groups_;
  const Graph& graph_;
  const Target& target_;
};

std::string format_name(const Graph& graph, ValueId v) {
  const ir::Value& value = graph.values[v];
  return value.name.empty() ? "%" + std::to_string(v.index) : "%" + value.name;
}

std::string format_values(const Graph& graph, const std::vector<ValueId>& values) {
  std::string text;
  for (ValueId v : values) text += (text.empty() ? "" : ", ") + format_name(graph, v) + ": " + to_string(graph.type(v));
  return text;
}

}  // namespace

Result<Partition> partition(const Graph& graph, const Target& target, const Options& options) {
  Groups groups(graph, multiplies_by_kernels(target, options));
  form_anchors(groups, target, options);
  choose_concat_views(groups);
  fuse_regions(groups, target, options);
  return RegionWriter(groups, target).write();
}

std::string to_string(const Graph& graph, const Partition& partition) {
  std::string text;
  int number = 0;
  for (const Region& region : partition.regions) {
    text +=
        "region r" + std::to_string(number++) + (region.kind == RegionKind::anchor ? " library" : " kernel") + " {\n";
    text += "  in  " + format_values(graph, region.inputs) + "\n";
    for (ir::NodeId id : region.nodes) {
      const Node& node = graph.nodes[id];
      text += "  " + format_name(graph, node.output) + " = " + std::string(node.op.name());
      for (ValueId input : node.inputs) text += " " + format_name(graph, input);
      text += node.origin.empty() ? "\n" : "   // " + node.origin + "\n";
    }
    text += "  out " + format_values(graph, region.outputs) + "\n}\n";
  }
  for (const FusionBoundary& boundary : partition.boundaries)
    text += "boundary " + format_name(graph, boundary.value) + " -> " +
            format_name(graph, graph.nodes[boundary.user].output) + ": " + boundary.reason + "\n";
  return text;
}

}  // namespace fusec::compiler

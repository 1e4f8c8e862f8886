// SPDX-License-Identifier: Apache-2.0
// Partition: keeps the groups of nodes that become regions, the users of values seen through views, and the test
// whether merging two groups would create a cycle.

#include "compiler/partition/groups.h"

#include <algorithm>
#include <utility>

#include "compiler/partition/domain.h"
#include "compiler/partition/graph_names.h"

namespace fusec::compiler {
namespace {

bool is_float_sum(const Graph& graph, NodeId id) {
  const Node& node = graph.nodes[id];
  const bool sums =
      node.op == TensorOp::reduce_sum || node.op == TensorOp::reduce_mean || node.op == TensorOp::reduce_prod;
  return sums && is_float(graph.type(node.output).dtype);
}

}  // namespace

Groups::Groups(const Graph& g, bool multiplies)
    : graph(g),
      multiplies_(multiplies),
      positions_(g.nodes.size(), UINT32_MAX),
      groups_(g.nodes.size(), kNoGroup),
      views_(g.nodes.size(), 0),
      users_(users(g)),
      outputs_(g.outputs.begin(), g.outputs.end()) {
  spanning_.resize(g.order.size());
  uint32_t next = 0;
  for (NodeId id : g.order) {
    positions_[id] = next++;
    const Node& node = g.nodes[id];
    views_[id] = !node.op.is_scalar() && is_plain_map(node.op) && !outputs_.contains(node.output);
  }
}

int Groups::group_of_value(ValueId value) const {
  const NodeId id = graph.values[value].producer;
  return id.valid() ? groups_[id] : kNoGroup;
}

int Groups::add(Group group) {
  all.push_back(std::move(group));
  const int id = static_cast<int>(all.size() - 1);
  std::vector<NodeId> nodes;
  nodes.swap(all.back().nodes);
  for (NodeId node : nodes) put(node, id);
  return id;
}

void Groups::put(NodeId node, int group) {
  Group& g = all[static_cast<size_t>(group)];
  const uint32_t at = positions_[node];
  if (g.nodes.empty() || at < g.first) {
    g.first = at;
    g.last = g.nodes.empty() ? at : g.last;
    cover(g.first, at + 1, g.last);
  } else if (at > g.last) {
    cover(g.first, g.last + 1, at);
    g.last = at;
  }
  g.nodes.push_back(node);
  const ir::Op op = graph.nodes[node].op;
  if (op == TensorOp::max_pool) g.cost += static_cast<int>(window_size(graph.nodes[node]));
  if (op.is_scalar()) g.cost += info(op.scalar()).cost;
  if (is_kind(op, ir::OpPattern::reduction)) g.has_reduction = true;
  if (!op.is_scalar() && op.tensor() == TensorOp::cumsum) g.has_scan = true;
  if (!op.is_scalar() && op.tensor() == TensorOp::concat) g.has_concat = true;
  if (is_float_sum(graph, node)) g.has_float_sum = true;
  if (sums_product(graph.nodes[node])) g.has_product = true;
  groups_[node] = group;
}

// Notes that the group whose first node is at `first` spans the positions from `from` to `to`.
void Groups::cover(uint32_t first, uint32_t from, uint32_t to) {
  work_ += to < from ? 0 : int64_t{to - from} + 1;
  for (uint32_t at = from; at <= to; ++at) {
    Spanning& s = spanning_[at];
    if (first < s.first) {
      s.second = std::exchange(s.first, first);
    } else if (first > s.first && first < s.second) {
      s.second = first;
    }
  }
}

void Groups::absorb(int to, int from) {
  std::vector<NodeId> nodes;
  nodes.swap(all[static_cast<size_t>(from)].nodes);
  all[static_cast<size_t>(from)].alive = false;
  for (NodeId node : nodes) put(node, to);
  auto& merged = all[static_cast<size_t>(to)].nodes;
  const auto appended = merged.end() - static_cast<std::ptrdiff_t>(nodes.size());
  std::inplace_merge(merged.begin(), appended, merged.end(),
                     [&](NodeId a, NodeId b) { return positions_[a] < positions_[b]; });
}

std::vector<ValueId> Groups::bases(ValueId value) const {
  std::vector<ValueId> result, todo{value};
  while (!todo.empty()) {
    const ValueId v = todo.back();
    todo.pop_back();
    const NodeId id = graph.values[v].producer;
    if (!id.valid() || !views_[id]) {
      if (std::find(result.begin(), result.end(), v) == result.end()) result.push_back(v);
      continue;
    }
    for (ValueId input : graph.nodes[id].inputs) todo.push_back(input);
  }
  return result;
}

bool Groups::views_concat(ValueId value) const {
  for (;;) {
    const NodeId id = graph.values[value].producer;
    if (!id.valid() || !views_[id]) return false;
    const Node& node = graph.nodes[id];
    if (node.op == TensorOp::concat) return true;
    value = node.inputs[0];
  }
}

void Groups::collect_users(ValueId value, std::vector<NodeId>& out) const {
  for (NodeId user : users_[value]) {
    if (views_[user]) {
      collect_users(graph.nodes[user].output, out);
    } else if (std::find(out.begin(), out.end(), user) == out.end()) {
      out.push_back(user);
    }
  }
}

std::vector<NodeId> Groups::real_users(ValueId value) const {
  std::vector<NodeId> result;
  collect_users(value, result);
  return result;
}

std::vector<ValueId> Groups::find_outputs(const std::vector<NodeId>& nodes) const {
  std::vector<ValueId> result;
  for (NodeId id : nodes) {
    const ValueId v = graph.nodes[id].output;
    if (is_graph_output(v) || is_used_outside(v, nodes)) result.push_back(v);
  }
  return result;
}

bool Groups::is_used_outside(ValueId value, const std::vector<NodeId>& inside) const {
  const auto is_inside = [&](NodeId user) {
    const auto at = std::lower_bound(inside.begin(), inside.end(), user,
                                     [&](NodeId a, NodeId b) { return positions_[a] < positions_[b]; });
    return at != inside.end() && *at == user;
  };
  return std::any_of(users_[value].begin(), users_[value].end(), [&](NodeId user) {
    if (!views_[user]) return !is_inside(user);
    const ValueId view = graph.nodes[user].output;
    return is_graph_output(view) || is_used_outside(view, inside);
  });
}

bool Groups::would_cycle(int a, int b) const {
  constexpr size_t kMaxVisits = 4096;
  const Group &from = all[static_cast<size_t>(a)], &to = all[static_cast<size_t>(b)];
  // A group that ends before a begins does not depend on a, unless it reads a group that spans the beginning of a.
  const Spanning& spanning = spanning_[from.first];
  const uint32_t before = std::min(from.first, spanning.first == to.first ? spanning.second : spanning.first);
  std::vector<int> todo;
  std::set<int> seen{b};
  const auto visit_inputs = [&](int g) {
    const Group& group = all[static_cast<size_t>(g)];
    std::vector<ValueId> reads;
    for (NodeId id : group.nodes)
      for (ValueId input : graph.nodes[id].inputs) reads.push_back(input);
    work_ += static_cast<int64_t>(reads.size());
    for (ValueId read : reads)
      for (ValueId base : bases(read)) {
        const int p = group_of_value(base);
        // The edge from a to b is the one being fused; only longer paths form a cycle.
        if (p == kNoGroup || (g == b && p == a)) continue;
        if (all[static_cast<size_t>(p)].last < before) continue;
        if (seen.insert(p).second) todo.push_back(p);
      }
  };
  visit_inputs(b);
  while (!todo.empty()) {
    const int g = todo.back();
    todo.pop_back();
    if (g == a || seen.size() > kMaxVisits) return true;
    visit_inputs(g);
  }
  return false;
}

std::string Groups::reason(ValueId value, NodeId user) const {
  if (auto it = reasons_.find({value, user}); it != reasons_.end()) return it->second;
  const int from = group_of_value(value), to = group_of(user);
  if (from == kNoGroup) return "a model input or constant";
  if (all[static_cast<size_t>(to)].kind == RegionKind::anchor) return "operand of a library step";
  if (all[static_cast<size_t>(from)].kind == RegionKind::anchor) return "result of a library step";
  return "no shared loops";
}

}  // namespace fusec::compiler

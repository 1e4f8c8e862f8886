// SPDX-License-Identifier: Apache-2.0
// Partition: fuses every node that does work and is part of no anchor into the groups of the values it reads. Where it
// must not, it records the reason.

#include <algorithm>
#include <set>

#include "compiler/partition/domain.h"
#include "compiler/partition/graph_names.h"
#include "compiler/partition/groups.h"
#include "compiler/partition/limits.h"
#include "ir/kernel/kernel.h"

namespace fusec::compiler {
namespace {

// The most padded operands of a region that reduces. An unrolled window has one per position, and a reduction has few
// threads to compute them: summing 25 positions inside a mean took twenty times as long as storing the sums.
constexpr int64_t kMaxRowPads = 4;
// Up to this cost (cycles per 16 elements), a producer is recomputed for every element of a user that repeats its
// elements.
constexpr int kCheapToRepeat = 8;

class RegionFuser {
 public:
  RegionFuser(Groups& groups, const Target& target, const Options& options)
      : groups_(groups),
        graph_(groups.graph),
        keeps_rows_(target.keeps_rows),
        multiplies_((target.kind == TargetKind::cuda && target.sm >= ir::kFirstMmaSm) ||
                    multiplies_by_kernels(target, options)),
        options_(options) {}

  void visit(NodeId id) {
    if (groups_.group_of(id) != kNoGroup || groups_.is_view(id) || !is_work(id) || joins_user(id)) return;
    Group group;
    const std::vector<NodeId> casts = casts_of(id);
    group.nodes = casts;
    group.nodes.push_back(id);
    int g = groups_.add(std::move(group));
    const Node& node = graph_.nodes[id];
    for (const auto& [value, base] : producers(node)) {
      const int p = groups_.group_of_value(base);
      if (p == kNoGroup || p == g || groups_.all[static_cast<size_t>(p)].kind != RegionKind::kernel) continue;
      if (auto why = fusion_blocker(p, g, base, value == base, id)) {
        groups_.record_blocker(base, id, *why);
        for (NodeId cast : casts) groups_.record_blocker(base, cast, *why);
        continue;
      }
      groups_.absorb(p, g);
      g = p;
    }
  }

 private:
  bool is_work(NodeId id) const {
    const ir::Op op = graph_.nodes[id].op;
    return op.is_scalar() || op.tensor() != TensorOp::constant;
  }

  // Whether the node casts a 16-bit float to f32 for one scalar op or reduction, whose group it joins: what is stored
  // between groups is then 16 bits wide.
  bool joins_user(NodeId id) const {
    const Node& node = graph_.nodes[id];
    if (!options_.fuse || !widens(graph_, node) || groups_.is_graph_output(node.output)) return false;
    const std::vector<NodeId>& users = groups_.direct_users(node.output);
    if (users.size() != 1 || groups_.is_view(users[0])) return false;
    const ir::Op user = graph_.nodes[users[0]].op;
    if (!user.is_scalar() && !is_kind(user, ir::OpPattern::reduction)) return false;
    return is_in_no_anchor(id) && is_in_no_anchor(users[0]);
  }
  bool joins_user(ValueId value) const {
    const NodeId id = graph_.values[value].producer;
    return id.valid() && joins_user(id);
  }
  bool is_in_no_anchor(NodeId id) const {
    const int g = groups_.group_of(id);
    return g == kNoGroup || groups_.all[static_cast<size_t>(g)].kind != RegionKind::anchor;
  }

  // The casts that join the group of this node, their user, in order.
  std::vector<NodeId> casts_of(NodeId id) const {
    std::vector<NodeId> casts;
    for (ValueId input : graph_.nodes[id].inputs) {
      const NodeId producer = graph_.values[input].producer;
      if (joins_user(input) && std::find(casts.begin(), casts.end(), producer) == casts.end())
        casts.push_back(producer);
    }
    std::sort(casts.begin(), casts.end(),
              [&](NodeId a, NodeId b) { return groups_.position(a) < groups_.position(b); });
    return casts;
  }

  // The values that the node reads, as (operand, base it is a view of), those of higher rank first. A cast that joins
  // the node's group counts as a part of it.
  std::vector<std::pair<ValueId, ValueId>> producers(const Node& node) const {
    std::vector<std::pair<ValueId, ValueId>> result;
    for (ValueId input : node.inputs) {
      const ValueId read = joins_user(input) ? graph_.nodes[graph_.values[input].producer].inputs[0] : input;
      for (ValueId base : groups_.bases(read)) result.emplace_back(read, base);
    }
    std::stable_sort(result.begin(), result.end(), [&](const auto& a, const auto& b) {
      return graph_.type(a.second).rank() > graph_.type(b.second).rank();
    });
    return result;
  }

  // The reason why group p, which makes `value`, and group g, which holds the user, must stay apart; nullopt if they
  // can be merged.
  std::optional<std::string> fusion_blocker(int p, int g, ValueId value, bool direct, NodeId user) const {
    if (!options_.fuse) return "fusion is switched off";
    const Group& a = groups_.all[static_cast<size_t>(p)];
    const Group& b = groups_.all[static_cast<size_t>(g)];
    if (a.is_attention) return "an attention is a kernel of its own";
    if (options_.numerics == Numerics::exact && reorders_sum(a, b, value, direct, user))
      return "exact: what else a kernel does may change the order of its sum";
    const bool makes = multiplies_ && a.has_product, uses = multiplies_ && b.has_product;
    const bool product = multiplies_ && feeds_product(graph_.nodes[user].output);
    const bool rows = a.has_reduction || b.has_reduction || product;
    if ((makes && b.has_reduction) || (uses && a.has_reduction))
      return "a matrix product is the only reduction of its kernel";
    if (a.has_reduction && product) return "a matrix product is the only reduction of its kernel";
    if (makes && !(graph_.nodes[user].op.is_scalar() && reads_alike(p, user)))
      return "its user does not read a matrix product element by element";
    if (!keeps_rows_ && ((a.has_scan && b.has_reduction) || (b.has_scan && a.has_reduction)))
      return "a GPU keeps no row between a scan and another reduction";
    if (a.nodes.size() + b.nodes.size() > (rows ? kMaxRowNodes : kMaxNodes)) return "the region would be too large";
    if (a.cost + b.cost > kMaxCost) return "the region would take too long to compile";
    if (rows && count_pads(a) + count_pads(b) > kMaxRowPads)
      return "a window of many places is stored before it is reduced";
    if (rows && feeds_window(value, user)) return "a window of many places reads it where it is stored";
    if (groups_.would_cycle(p, g)) return "would make a cycle";
    std::vector<NodeId> nodes(a.nodes.size() + b.nodes.size());
    std::merge(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), nodes.begin(),
               [&](NodeId x, NodeId y) { return groups_.position(x) < groups_.position(y); });
    const auto outputs = groups_.find_outputs(nodes);
    if (outputs.size() > kMaxOutputs) return "the region would have too many outputs";
    if (product && (a.has_concat || a.cost > kCheapToRepeat))
      return "it is costly to make for each tile of a matrix product";
    if (product && outputs.size() > 1) return "what a matrix product reads is stored";
    if ((makes || uses) && !follow_product(nodes, outputs)) return "it is no result of a matrix product";
    if ((a.has_concat || b.has_concat) && selected(nodes, rows || outputs.size() > 1) > kMaxSelected)
      return "each element would choose from too many operands";
    if (reads_own_concat(nodes)) return "its user loads the concat that it is stored into";
    const Shape& from = graph_.type(value).shape;
    const Shape& to = graph_.type(graph_.nodes[user].output).shape;
    const bool scalar = graph_.nodes[user].op.is_scalar();
    if (scalar && reads_alike(p, user)) {
      if (!rows && same_shape(outputs, to) && meet_at(p, g, user)) return std::nullopt;
      // The user reads the value at the coordinates that it has in p's domain.
      if (rows && b.nodes.size() == 1) return std::nullopt;
    }
    const bool kept = std::find(outputs.begin(), outputs.end(), value) != outputs.end();
    if (!rows && kept && !(direct && from == to)) return "its user uses other coordinates, and it is stored anyway";
    if ((!rows || product) && repeats(from, graph_.nodes[user]) && a.cost > kCheapToRepeat)
      return "its user repeats elements, and they are costly to make again";
    const auto domain = compute_domain(graph_, nodes, outputs);
    if (!domain.ok()) return domain.status().message();
    return std::nullopt;
  }

  // Whether the value is the product of elements that a matrix product sums.
  bool feeds_product(ValueId value) const {
    const std::vector<NodeId>& users = groups_.direct_users(value);
    return users.size() == 1 && groups_.sums_product(graph_.nodes[users[0]]);
  }

  // Whether the outputs of these nodes, one of which is the sum of a matrix product, have its shape, and it reads none.
  bool follow_product(const std::vector<NodeId>& nodes, const std::vector<ValueId>& outputs) const {
    std::set<ValueId> read;
    const Shape* shape = nullptr;
    for (auto id = nodes.rbegin(); id != nodes.rend(); ++id) {
      const Node& node = graph_.nodes[*id];
      const bool sum = groups_.sums_product(node);
      if (sum) shape = &graph_.type(node.output).shape;
      if (!sum && !read.contains(node.output)) continue;
      for (const ValueId input : node.inputs) {
        read.insert(input);
        for (const ValueId base : groups_.bases(input)) read.insert(base);
      }
    }
    return std::all_of(outputs.begin(), outputs.end(), [&](ValueId v) {
      return !read.contains(v) && (shape == nullptr || graph_.type(v).shape == *shape);
    });
  }

  // Whether merging could change the order of a sum or product of floats in a or b. Its loops depend on its loads and
  // on the loops around it. A user that uses the result element by element, with only scalars as other operands,
  // changes neither.
  bool reorders_sum(const Group& a, const Group& b, ValueId value, bool direct, NodeId user) const {
    if (!a.has_float_sum && !b.has_float_sum) return false;
    const Node& node = graph_.nodes[user];
    if (b.has_float_sum || b.nodes.size() > 1 || !direct || !node.op.is_scalar()) return true;
    if (!(graph_.type(node.output).shape == graph_.type(value).shape)) return true;
    return !std::all_of(node.inputs.begin(), node.inputs.end(),
                        [&](ValueId input) { return input == value || num_elements(graph_.type(input).shape).is(1); });
  }

  // Whether the user is one of many moved reads of the value, or converts it for the sum of them. The whole window then
  // reads what is stored: fused with the reduction that makes the value, a part of it would be a further result.
  bool feeds_window(ValueId value, NodeId user) const {
    const ir::Op op = graph_.nodes[user].op;
    if (!(op == TensorOp::pad) && !(op == ScalarOp::cast)) return false;
    const std::vector<NodeId> users = groups_.real_users(value);
    return std::count_if(users.begin(), users.end(), [&](NodeId id) { return graph_.nodes[id].op == TensorOp::pad; }) >
           kMaxRowPads;
  }

  int64_t count_pads(const Group& group) const {
    return std::count_if(group.nodes.begin(), group.nodes.end(),
                         [&](NodeId id) { return graph_.nodes[id].op == ir::TensorOp::pad; });
  }

  // The number of concat operands from which an element selects. With one output and no reduction, the longest concat
  // is split into a loop nest per operand, which needs no selection.
  int64_t selected(const std::vector<NodeId>& nodes, bool whole) const {
    int64_t all = 0, longest = 0;
    for (NodeId id : nodes) {
      const Node& node = graph_.nodes[id];
      if (!(node.op == TensorOp::concat)) continue;
      const auto operands = static_cast<int64_t>(node.inputs.size());
      all += operands;
      longest = std::max(longest, operands);
    }
    return whole ? all : all - longest;
  }

  bool same_shape(const std::vector<ValueId>& outputs, const Shape& shape) const {
    return std::all_of(outputs.begin(), outputs.end(), [&](ValueId v) { return graph_.type(v).shape == shape; });
  }

  // Whether one of the nodes loads a concat that another of them writes into.
  bool reads_own_concat(const std::vector<NodeId>& nodes) const {
    const auto made_here = [&](ValueId v) {
      const NodeId id = graph_.values[v].producer;
      return id.valid() && std::find(nodes.begin(), nodes.end(), id) != nodes.end();
    };
    const auto loads_own = [&](ValueId v) {
      if (!groups_.views_concat(v)) return false;
      const auto bases = groups_.bases(v);
      return std::any_of(bases.begin(), bases.end(), made_here);
    };
    return std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) {
      const auto& inputs = graph_.nodes[id].inputs;
      return std::any_of(inputs.begin(), inputs.end(), loads_own);
    });
  }

  // Whether the user reads every value of group p at the coordinates of the element that it computes.
  bool reads_alike(int p, NodeId user) const {
    const Node& node = graph_.nodes[user];
    for (const auto& [value, base] : producers(node)) {
      if (groups_.group_of_value(base) != p) continue;
      if (value != base || !(graph_.type(value).shape == graph_.type(node.output).shape)) return false;
    }
    return true;
  }

  // Whether the only edges between groups p and g are those from p to the user in g. Then the groups can be merged
  // where the user alone could join p, and no check has to be repeated. The sum of an unrolled window gains one such
  // p per position.
  bool meet_at(int p, int g, NodeId user) const {
    if (groups_.all[static_cast<size_t>(g)].nodes.size() == 1) return true;
    const std::vector<NodeId>& nodes = groups_.all[static_cast<size_t>(p)].nodes;
    return std::none_of(nodes.begin(), nodes.end(), [&](NodeId id) {
      for (const auto& [value, base] : producers(graph_.nodes[id]))
        if (groups_.group_of_value(base) == g) return true;
      const auto users = groups_.real_users(graph_.nodes[id].output);
      return std::any_of(users.begin(), users.end(), [&](NodeId r) { return r != user && groups_.group_of(r) == g; });
    });
  }

  // Whether the user uses an element of a value of this shape several times.
  bool repeats(const Shape& from, const Node& user) const {
    if (user.op == TensorOp::max_pool && windows_overlap(user)) return true;
    const Dim n = num_elements(graph_.type(user.output).shape);
    return !(num_elements(from) == n) && !proves_nonneg(num_elements(from) - n, {});
  }

  Groups& groups_;
  const Graph& graph_;
  const bool keeps_rows_;
  const bool multiplies_;  // whether kernels compute matrix products by tiles
  const Options& options_;
};

}  // namespace

void fuse_regions(Groups& groups, const Target& target, const Options& options) {
  RegionFuser fuser(groups, target, options);
  for (NodeId id : groups.graph.order) fuser.visit(id);
}

}  // namespace fusec::compiler

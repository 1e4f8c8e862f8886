// SPDX-License-Identifier: Apache-2.0
// Partition: chooses the concats that become views, and assigns storage to every materialized value. A value that a
// library or a gather cannot read where it lies is copied by a group of its own.

#include <algorithm>

#include "compiler/partition/domain.h"
#include "compiler/partition/graph_names.h"
#include "compiler/partition/groups.h"
#include "compiler/partition/limits.h"
#include "compiler/partition/partition.h"
#include "ir/library/capabilities.h"
#include "ir/support/check.h"

namespace fusec::compiler {
namespace {

bool is_concat(const Node& node) { return node.op == TensorOp::concat; }

bool is_opaque(const Node& node) { return is_kind(node.op, ir::OpPattern::opaque); }

// Whether the producer of a concat operand can write it into a slice of the concat: a node that does work makes it, and
// it is stored nowhere else. Functions of the host write and read dense memory.
bool writable(const Groups& groups, ValueId value, std::set<ValueId>& taken) {
  const NodeId id = groups.graph.values[value].producer;
  if (!id.valid() || groups.graph.is_constant(value) || groups.is_graph_output(value)) return false;
  const Node& node = groups.graph.nodes[id];
  if (groups.is_view(id) && !is_concat(node)) return false;
  const auto& users = groups.direct_users(value);
  if (is_opaque(node) ||
      std::any_of(users.begin(), users.end(), [&](NodeId user) { return is_opaque(groups.graph.nodes[user]); }))
    return false;
  return taken.insert(value).second;
}

// Whether a library reads the value. A library needs the whole concat in memory, while a generated kernel selects the
// operand by index at no cost.
bool read_by_anchor(const Groups& groups, ValueId value) {
  for (NodeId user : groups.real_users(value)) {
    const int g = groups.group_of(user);
    if (g != kNoGroup && groups.all[static_cast<size_t>(g)].kind == RegionKind::anchor) return true;
  }
  return false;
}

// Whether only small windows read the value. They read each part of a concat from dense memory of its own, and a
// library is slow at writing into slices of channels.
bool read_by_windows_alone(const Groups& groups, ValueId value) {
  const auto& users = groups.direct_users(value);
  return std::all_of(users.begin(), users.end(),
                     [&](NodeId id) { return is_small_window(groups.graph, groups.graph.nodes[id]); });
}

bool made_by_anchors(const Groups& groups, const Node& concat) {
  return std::any_of(concat.inputs.begin(), concat.inputs.end(), [&](ValueId v) {
    const int g = groups.group_of_value(v);
    return g != kNoGroup && groups.all[static_cast<size_t>(g)].kind == RegionKind::anchor;
  });
}

// Whether the concat has too many operands for one kernel, counting the operands of concats among them.
bool is_long(const Groups& groups, const Node& concat) {
  size_t operands = 0;
  for (ValueId v : concat.inputs) {
    const Node* part = groups.graph.producer(v);
    operands += part != nullptr && is_concat(*part) ? part->inputs.size() : 1;
  }
  return operands > kMaxConcatOperands;
}

// Whether a library reads the concat or makes parts of it, and gains by a view.
bool is_for_library(const Groups& groups, const Node& concat) {
  if (groups.is_graph_output(concat.output)) return false;
  if (!read_by_anchor(groups, concat.output) && !made_by_anchors(groups, concat)) return false;
  return !read_by_windows_alone(groups, concat.output);
}

class Placing {
 public:
  Placing(Groups& groups, const Target& target)
      : groups_(groups), graph_(groups.graph), limits_(ir::stride_limits(target)) {}

  std::map<ValueId, Storage> run() {
    for (ValueId v : graph_.inputs) own(v);
    for (NodeId id : graph_.order)
      if (graph_.nodes[id].op == TensorOp::constant) own(graph_.nodes[id].output);
    place_results();
    place_concats();
    for (size_t g = 0; g < groups_.all.size(); ++g)
      if (groups_.all[g].alive && groups_.all[g].kind == RegionKind::anchor) serve_anchor(static_cast<int>(g));
    for (size_t g = 0; g < groups_.all.size(); ++g)
      if (groups_.all[g].is_attention) serve_attention(graph_.nodes[groups_.all[g].nodes[0]]);
    for (NodeId id : graph_.order) serve_gather(graph_.nodes[id]);
    return std::move(storage_);
  }

 private:
  void own(ValueId v) { storage_[v] = {v, 0, contiguous_strides(graph_.type(v).shape)}; }

  void place_results() {
    for (const Group& group : groups_.all) {
      if (!group.alive) continue;
      if (group.kind == RegionKind::anchor) {
        own(group.result);
      } else {
        for (ValueId v : groups_.find_outputs(group.nodes)) own(v);
      }
    }
  }

  // Places the operands of concat views inside the concat; outer concats come first.
  void place_concats() {
    for (auto it = graph_.order.rbegin(); it != graph_.order.rend(); ++it) {
      const Node& node = graph_.nodes[*it];
      if (!is_concat(node) || !groups_.is_view(*it)) continue;
      if (!storage_.contains(node.output)) own(node.output);
      const Storage whole = storage_.at(node.output);
      const auto axis = static_cast<size_t>(node.attrs.i("axis"));
      Dim start = 0;
      for (ValueId input : node.inputs) {
        storage_[input] = {whole.base, whole.offset + start * whole.strides[axis], whole.strides};
        start += graph_.type(input).shape[axis];
      }
    }
  }

  // An index from data is clamped to the axis it indexes, so that axis must be an axis of the memory that is read.
  // Otherwise the operand is copied.
  void serve_gather(const Node& node) {
    const bool gathers =
        node.op == TensorOp::gather || node.op == TensorOp::gather_elements || node.op == TensorOp::gather_nd;
    if (gathers && !find_view(graph_, storage_, node.inputs[0])) copy(node.inputs[0]);
  }

  // Makes every operand of the call a view that the library can read.
  void serve_anchor(int g) {
    const Node& anchor = graph_.nodes[groups_.all[static_cast<size_t>(g)].nodes[0]];
    for (size_t i = 0; i < anchor.inputs.size(); ++i)
      if (!readable(anchor, i, anchor.inputs[i])) make_readable(anchor, i);
    const auto epilogues = groups_.all[static_cast<size_t>(g)].epilogues;
    for (const AnchorEpilogue& e : epilogues)
      if (e.operand.valid() && !find_view(graph_, storage_, e.operand)) copy(e.operand);
  }

  // A kernel reads the channels of a head side by side, and stores them in the order in which they are read.
  void serve_attention(const Node& attention) {
    for (size_t i = 0; i < 3; ++i) {
      const auto view = find_view(graph_, storage_, attention.inputs[i]);
      if (!view || !view->strides.back().is(1) || view->backwards.back()) copy(attention.inputs[i]);
    }
    permute_for_reader(attention.output);
  }

  bool readable(const Node& anchor, size_t i, ValueId value) const {
    const auto w = find_view(graph_, storage_, value);
    return w && reads_view(anchor, i, graph_.type(value).dtype, *w, limits_);
  }

  void make_readable(const Node& anchor, size_t i) {
    const ValueId value = anchor.inputs[i];
    const auto saved = storage_;
    for (ValueId base : groups_.bases(value)) {
      if (!permute_for_reader(base)) continue;
      if (readable(anchor, i, value)) return;
      storage_ = saved;
    }
    copy(value);
  }

  // Stores a value in the order that its only user, a transpose, yields.
  bool permute_for_reader(ValueId value) {
    const auto it = storage_.find(value);
    const auto& users = groups_.direct_users(value);
    if (it == storage_.end() || it->second.base != value || users.size() != 1) return false;
    const Node& user = graph_.nodes[users[0]];
    const NodeId producer = graph_.values[value].producer;
    if (!(user.op == TensorOp::transpose) || !producer.valid() || graph_.is_constant(value)) return false;
    if (groups_.is_graph_output(value) || !groups_.is_view(users[0])) return false;
    if (is_opaque(graph_.nodes[producer])) return false;
    const Shape outer = contiguous_strides(graph_.type(user.output).shape);
    const auto& perm = user.attrs.ints("perm");
    // A library writes the channels of a head side by side.
    if (graph_.nodes[producer].op == TensorOp::attention && perm.back() != static_cast<int64_t>(perm.size()) - 1)
      return false;
    for (size_t k = 0; k < perm.size(); ++k) it->second.strides[static_cast<size_t>(perm[k])] = outer[k];
    return true;
  }

  // Turns a view into a group of its own: a kernel that moves its elements.
  void copy(ValueId value) {
    const NodeId id = graph_.values[value].producer;
    if (!id.valid() || storage_.contains(value)) return;
    FUSEC_CHECK(groups_.is_view(id)) << "only a view is copied";
    Group group;
    group.nodes = {id};
    groups_.make_real(id);
    groups_.add(std::move(group));
    own(value);
  }

  Groups& groups_;
  const Graph& graph_;
  const ir::StrideLimits limits_;
  std::map<ValueId, Storage> storage_;
};

}  // namespace

void choose_concat_views(Groups& groups) {
  std::set<ValueId> taken;
  for (NodeId id : groups.graph.order) {
    const Node& node = groups.graph.nodes[id];
    if (!is_concat(node) || !(is_long(groups, node) || is_for_library(groups, node))) continue;
    std::set<ValueId> now = taken;
    if (!std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return writable(groups, v, now); }))
      continue;
    taken = now;
    groups.make_view(id);
  }
}

std::map<ValueId, Storage> assign_buffers(Groups& groups, const Target& target) {
  return Placing(groups, target).run();
}

}  // namespace fusec::compiler

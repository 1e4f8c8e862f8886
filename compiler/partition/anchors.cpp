// SPDX-License-Identifier: Apache-2.0
// Partition: makes an anchor of each convolution, matmul and pool that is no small window, and fuses a bias and up to
// four epilogues into its library call, as far as every library of the target that has the op fuses them
// (ir/library/capabilities.h). In exact numerics no op is fused. An attention that no library computes is a group of
// its own, which becomes a kernel.

#include <algorithm>

#include "compiler/partition/attention.h"
#include "compiler/partition/domain.h"
#include "compiler/partition/graph_names.h"
#include "compiler/partition/groups.h"
#include "ir/library/capabilities.h"
#include "ir/ops/cast.h"

namespace fusec::compiler {
namespace {

std::optional<double> scalar_constant(const Graph& graph, ValueId value) {
  const Tensor* data = graph.constant(value);
  if (data == nullptr || data->num_elements() != 1) return std::nullopt;
  return ir::load_double(data->dtype(), data->data());
}

// The axis of output channels: 1 or last for conv by its layout, last for matmul; -1 for pools.
int channel_axis(const Graph& graph, const Node& anchor) {
  const int rank = graph.type(anchor.output).rank();
  if (anchor.op == TensorOp::conv) return anchor.attrs.s("layout") == "last" ? rank - 1 : 1;
  return anchor.op == TensorOp::matmul ? rank - 1 : -1;
}

// Whether a tensor has one value per channel: extent 1 on all other axes, after right-alignment.
bool is_per_channel(const Shape& shape, const Shape& full, int channel) {
  if (channel < 0 || shape.size() > full.size()) return false;
  const size_t shift = full.size() - shape.size();
  bool has_channel = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (static_cast<int>(i + shift) == channel) {
      has_channel = shape[i] == full[i + shift];
      if (!has_channel) return false;
    } else if (!shape[i].is(1)) {
      return false;
    }
  }
  return has_channel;
}

class AnchorForming {
 public:
  AnchorForming(Groups& groups, const Target& target, const Options& options)
      : groups_(groups), graph_(groups.graph), libraries_(ir::libraries_of(target)), options_(options) {}

  void form(NodeId id) {
    Group group;
    group.kind = RegionKind::anchor;
    group.nodes = {id};
    group.result = graph_.nodes[id].output;
    const int g = groups_.add(group);
    limits_ = epilogue_limits(graph_.nodes[id].op.tensor());
    while (!limits_.empty() && options_.fuse && options_.numerics != Numerics::exact &&
           absorb_reader(g, graph_.nodes[id])) {
    }
  }

 private:
  Group& group(int g) { return groups_.all[static_cast<size_t>(g)]; }

  // Of the libraries to which bind may give the call; empty: its result takes no epilogues.
  std::vector<const ir::EpilogueLimits*> epilogue_limits(TensorOp op) const {
    std::vector<const ir::EpilogueLimits*> limits;
    for (const ir::LibraryCapabilities* library : libraries_) {
      if (!ir::contains(library->ops, op)) continue;
      if (!ir::contains(library->epilogues.anchors, op)) return {};
      limits.push_back(&library->epilogues);
    }
    return limits;
  }

  template <class Test>
  bool all_libraries(const Test& test) const {
    return std::all_of(limits_.begin(), limits_.end(), [&](const ir::EpilogueLimits* l) { return test(*l); });
  }

  // Fuses the only user of the group's result into the call, if the library can compute it.
  bool absorb_reader(int g, const Node& anchor) {
    const ValueId value = group(g).result;
    if (groups_.is_graph_output(value)) return false;
    const auto& users = groups_.direct_users(value);
    if (users.size() != 1) return record_blockers(value, "read by several nodes, so it must be stored");
    const Node& node = graph_.nodes[users[0]];
    if (!node.op.is_scalar()) return false;
    if (groups_.group_of(users[0]) != kNoGroup)
      return record_blockers(value, "its user is already part of another call");
    if (!(graph_.type(node.output) == graph_.type(value)))
      return record_blockers(value, "the user has another type or shape");
    if (!all_libraries([&](const auto& limits) { return group(g).epilogues.size() < limits.max; }))
      return record_blockers(value, "the call has its four epilogues");
    if (!absorb(g, anchor, value, node)) return record_blockers(value, "no epilogue of the library does this op");
    groups_.put(users[0], g);
    group(g).result = node.output;
    return true;
  }

  bool record_blockers(ValueId value, const char* why) {
    for (NodeId user : groups_.real_users(value)) groups_.record_blocker(value, user, why);
    return false;
  }

  bool absorb(int g, const Node& anchor, ValueId value, const Node& node) {
    const ScalarOp op = node.op.scalar();
    const NodeId id = graph_.values[node.output].producer;
    std::vector<ScalarOp> before;
    for (const AnchorEpilogue& e : group(g).epilogues) before.push_back(e.epilogue.op);
    const DType dtype = graph_.type(value).dtype;
    if (!all_libraries([&](const auto& limits) { return ir::fuses(limits, op, dtype, before); })) return false;
    if (node.inputs.size() == 1) {
      group(g).epilogues.push_back({id, {op, -1, 0, 0}, {}});
      return true;
    }
    const bool is_unary = all_libraries([&](const auto& limits) { return ir::contains(limits.unary, op); });
    return is_unary ? absorb_with_constants(g, value, node, id) : absorb_binary(g, anchor, value, node, id);
  }

  // Whether the operand is an addend that the call takes as its bias.
  bool is_bias(int g, const Node& anchor, ValueId value, ValueId operand, ScalarOp op) {
    const bool none = !group(g).bias.valid() && !has_bias(anchor) && group(g).epilogues.empty();
    return op == ScalarOp::add && none && graph_.is_constant(operand) &&
           is_per_channel(graph_.type(operand).shape, graph_.type(value).shape, channel_axis(graph_, anchor));
  }

  static bool has_bias(const Node& anchor) {
    const std::vector<ir::Role> roles = ir::roles_of(anchor.op.tensor());
    const auto at = std::find(roles.begin(), roles.end(), ir::Role::bias) - roles.begin();
    return at < static_cast<std::ptrdiff_t>(anchor.inputs.size());
  }

  bool absorb_with_constants(int g, ValueId value, const Node& node, NodeId id) {
    if (node.inputs[0] != value) return false;
    const auto alpha = scalar_constant(graph_, node.inputs[1]);
    const auto beta = node.inputs.size() > 2 ? scalar_constant(graph_, node.inputs[2]) : 0.0;
    if (!alpha || !beta) return false;
    group(g).epilogues.push_back({id, {node.op.scalar(), -1, *alpha, *beta}, {}});
    return true;
  }

  bool absorb_binary(int g, const Node& anchor, ValueId value, const Node& node, NodeId id) {
    const ScalarOp op = node.op.scalar();
    const bool first = node.inputs[0] == value;
    const ValueId operand = node.inputs[first ? 1 : 0];
    if (operand == value || (op == ScalarOp::sub && !first)) return false;
    const Shape& full = graph_.type(value).shape;
    const Shape& shape = graph_.type(operand).shape;
    const bool channel = is_per_channel(shape, full, channel_axis(graph_, anchor));
    if (is_bias(g, anchor, value, operand, op)) {
      group(g).bias = operand;
      return true;
    }
    const bool scalar = num_elements(shape).is(1);
    const bool broadcasts = all_libraries([](const auto& limits) { return limits.broadcasts; });
    if (!(shape == full) && !(broadcasts && (scalar || channel))) return false;
    group(g).epilogues.push_back({id, {op, 0, 0, 0}, operand});
    return true;
  }

  Groups& groups_;
  const Graph& graph_;
  const std::vector<const ir::LibraryCapabilities*> libraries_;
  std::vector<const ir::EpilogueLimits*> limits_;  // of the libraries that have the anchor at hand
  const Options& options_;
};

}  // namespace

void form_anchors(Groups& groups, const Target& target, const Options& options) {
  AnchorForming forming(groups, target, options);
  for (NodeId id : groups.graph.order) {
    const Node& node = groups.graph.nodes[id];
    if (!is_kind(node.op, ir::OpPattern::anchor) && !is_kind(node.op, ir::OpPattern::opaque)) continue;
    if (is_own_attention(target, options, groups.graph, node)) {
      Group group;
      group.nodes = {id};
      group.is_attention = true;
      groups.add(std::move(group));
    } else if (!is_small_window(groups.graph, node)) {
      forming.form(id);
    }
  }
}

}  // namespace fusec::compiler

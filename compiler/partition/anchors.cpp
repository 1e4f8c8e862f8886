// SPDX-License-Identifier: Apache-2.0
// Partition: makes an anchor of each convolution, matmul and pool that is no small window, and fuses a bias and up to
// four epilogues into its library call. Ops that a library computes imprecisely are not fused, and in exact numerics no
// op is.

#include <algorithm>

#include "compiler/partition/graph_names.h"
#include "compiler/partition/groups.h"
#include "compiler/partition/windows.h"
#include "ir/ops/cast.h"

namespace fusec::compiler {
namespace {

// Libraries have no fast kernels for longer chains.
constexpr size_t kMaxEpilogues = 4;

std::optional<double> scalar_constant(const Graph& graph, ValueId value) {
  const Tensor* data = graph.constant(value);
  if (data == nullptr || data->num_elements() != 1) return std::nullopt;
  return ir::load_double(data->dtype(), data->data());
}

// The gelus and elu are excluded: oneDNN's are off by 64 and more units in the last place, and its gelu of infinity is
// NaN.
bool is_unary_epilogue(ScalarOp op) {
  switch (op) {
    case ScalarOp::relu:
    case ScalarOp::hard_swish:
    case ScalarOp::sigmoid:
    case ScalarOp::tanh:
    case ScalarOp::silu:
    case ScalarOp::abs:
    case ScalarOp::square:
    case ScalarOp::sqrt:
      return true;
    default:
      return false;
  }
}

// max and min are excluded because oneDNN's drop NaN, as do its clamp and hard_sigmoid. Fused into a generated kernel
// they cost less than a pass that corrects the result.
bool is_binary_epilogue(ScalarOp op) { return op == ScalarOp::add || op == ScalarOp::mul || op == ScalarOp::sub; }

// The epilogues of GPU libraries are, in this order: bias, an addend as large as the result, relu. All other ops become
// part of a generated kernel: cuDNN fuses more only for some types and layouts, cuBLASLt has only the gelu by tanh, and
// no further pass over memory could compute the rest.
bool cuda_takes_unary(ScalarOp op, DType dtype) { return op == ScalarOp::relu && dtype != DType::f64; }
bool cuda_takes_binary(ScalarOp op, bool full) { return op == ScalarOp::add && full; }

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
  AnchorForming(Groups& groups, TargetKind target, const Options& options)
      : groups_(groups), graph_(groups.graph), cuda_(target == TargetKind::cuda), options_(options) {}

  void form(NodeId id) {
    Group group;
    group.kind = RegionKind::anchor;
    group.nodes = {id};
    group.result = graph_.nodes[id].output;
    const int g = groups_.add(group);
    if (graph_.nodes[id].op == TensorOp::max_pool || graph_.nodes[id].op == TensorOp::avg_pool) return;
    while (options_.fuse && options_.numerics != Numerics::exact && absorb_reader(g, graph_.nodes[id])) {
    }
  }

 private:
  Group& group(int g) { return groups_.all[static_cast<size_t>(g)]; }

  // Fuses the only user of the group's result into the call, if the library can compute it.
  bool absorb_reader(int g, const Node& anchor) {
    const ValueId value = group(g).result;
    if (groups_.is_graph_output(value)) return false;
    const auto& readers = groups_.direct_readers(value);
    if (readers.size() != 1) return refuse_all(value, "read by several nodes, so it must be stored");
    const Node& node = graph_.nodes[readers[0]];
    if (!node.op.is_scalar()) return false;
    if (groups_.group_of(readers[0]) != kNoGroup)
      return refuse_all(value, "its reader is already part of another call");
    if (!(graph_.type(node.output) == graph_.type(value)))
      return refuse_all(value, "the reader has another type or shape");
    if (group(g).epilogues.size() >= kMaxEpilogues) return refuse_all(value, "the call has its four epilogues");
    if (!absorb(g, anchor, value, node)) return refuse_all(value, "no epilogue of the library does this op");
    groups_.put(readers[0], g);
    group(g).result = node.output;
    return true;
  }

  bool refuse_all(ValueId value, const char* why) {
    for (NodeId reader : groups_.real_readers(value)) groups_.refuse(value, reader, why);
    return false;
  }

  bool absorb(int g, const Node& anchor, ValueId value, const Node& node) {
    const ScalarOp op = node.op.scalar();
    const NodeId id = graph_.values[node.output].producer;
    if (cuda_ && !cuda_takes(g, anchor, value, node)) return false;
    if (is_unary_epilogue(op)) {
      group(g).epilogues.push_back({id, {op, -1, 0, 0}, {}});
      return true;
    }
    if (op == ScalarOp::leaky_relu) return absorb_with_constants(g, value, node, id);
    if (is_binary_epilogue(op)) return absorb_binary(g, anchor, value, node, id);
    return false;
  }

  // Whether a GPU library can compute `node` after the epilogues that the group already has.
  bool cuda_takes(int g, const Node& anchor, ValueId value, const Node& node) {
    const ScalarOp op = node.op.scalar();
    const DType dtype = graph_.type(value).dtype;
    const auto& before = group(g).epilogues;
    if (!is_float(dtype) || (!before.empty() && before.back().epilogue.op == ScalarOp::relu)) return false;
    if (node.inputs.size() == 1) return cuda_takes_unary(op, dtype);
    if (node.inputs.size() != 2 || !before.empty()) return false;
    const ValueId operand = node.inputs[node.inputs[0] == value ? 1 : 0];
    return cuda_takes_binary(op, graph_.type(operand) == graph_.type(value)) || is_bias(g, anchor, value, operand, op);
  }

  // Whether the operand is an addend that the call takes as its bias.
  bool is_bias(int g, const Node& anchor, ValueId value, ValueId operand, ScalarOp op) {
    const bool none = !group(g).bias.valid() && anchor.inputs.size() < 3 && group(g).epilogues.empty();
    return op == ScalarOp::add && none && graph_.is_constant(operand) &&
           is_per_channel(graph_.type(operand).shape, graph_.type(value).shape, channel_axis(graph_, anchor));
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
    if (!scalar && !channel && !(shape == full)) return false;
    group(g).epilogues.push_back({id, {op, 0, 0, 0}, operand});
    return true;
  }

  Groups& groups_;
  const Graph& graph_;
  bool cuda_;
  const Options& options_;
};

}  // namespace

void form_anchors(Groups& groups, TargetKind target, const Options& options) {
  AnchorForming forming(groups, target, options);
  for (NodeId id : groups.graph.order) {
    const Node& node = groups.graph.nodes[id];
    if (node.op.is_scalar() || info(node.op.tensor()).kind != ir::RegionKind::anchor) continue;
    if (!is_small_window(groups.graph, node)) forming.form(id);
  }
}

}  // namespace fusec::compiler

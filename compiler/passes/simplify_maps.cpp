// SPDX-License-Identifier: Apache-2.0
// Optimize passes on index maps: simplify_maps removes and merges maps, sink_reshapes moves reshapes behind matmuls and
// their biases, and own_outputs gives every graph output a node of its own.

#include <algorithm>
#include <numeric>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"

namespace fusec::compiler {
namespace {

// Whether the node is a cast to the operand's own type that does not round. It rounds if the operand is computed in a
// wider type.
bool casts_nothing(const Graph& graph, const Node& node) {
  const ir::Type& from = graph.type(node.inputs[0]);
  if (!(node.op == ir::ScalarOp::cast) || from.dtype != graph.type(node.output).dtype) return false;
  const Node* producer = graph.producer(node.inputs[0]);
  return compute_type(from.dtype) == from.dtype || producer == nullptr || producer->op == TensorOp::constant ||
         producer->op == ir::ScalarOp::cast;
}

bool is_identity(const Graph& graph, const Node& node) {
  if (node.op.is_scalar()) return casts_nothing(graph, node);
  const Shape& in = node.inputs.empty() ? Shape{} : graph.type(node.inputs[0]).shape;
  const Shape& out = graph.type(node.output).shape;
  switch (node.op.tensor()) {
    case TensorOp::reshape:
    case TensorOp::broadcast:
      return in == out;
    case TensorOp::transpose: {
      const auto& perm = node.attrs.ints("perm");
      return std::is_sorted(perm.begin(), perm.end());
    }
    case TensorOp::slice: {
      const auto& steps = node.attrs.ints("steps");
      const Shape& starts = node.attrs.dims("starts");
      return in == out && std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s == 1; }) &&
             std::all_of(starts.begin(), starts.end(), [](const Dim& d) { return d.is(0); });
    }
    case TensorOp::concat:
      return node.inputs.size() == 1;
    case TensorOp::reduce_sum:
    case TensorOp::reduce_mean:
    case TensorOp::reduce_max:
    case TensorOp::reduce_min:
    case TensorOp::reduce_prod:
      return node.attrs.ints("axes").empty();
    default:
      return false;
  }
}

// Whether the transpose leaves elements where they are in memory: only axes of extent 1 change places.
bool keeps_order(const Shape& shape, const std::vector<int64_t>& perm) {
  int64_t last = -1;
  for (int64_t p : perm) {
    if (shape[static_cast<size_t>(p)].is(1)) continue;
    if (p < last) return false;
    last = p;
  }
  return true;
}

// Emits a simpler node on the same operand or on the operand's operand; returns an invalid value if the node is simple
// already.
ValueId simpler(Graph& graph, const Node& node) {
  if (node.op.is_scalar() || node.inputs.empty()) return {};
  const ValueId input = node.inputs[0];
  const Node inner = graph.producer(input) != nullptr ? *graph.producer(input) : Node{};
  const Shape shape = graph.type(node.output).shape;
  if (node.op == TensorOp::transpose) {
    const auto perm = node.attrs.ints("perm");
    if (keeps_order(graph.type(input).shape, perm))
      return add_node(graph, TensorOp::reshape, {input}, {{"shape", shape}}, node.origin);
    if (inner.op == TensorOp::transpose) {
      std::vector<int64_t> both;
      for (int64_t p : perm) both.push_back(inner.attrs.ints("perm")[static_cast<size_t>(p)]);
      return add_node(graph, TensorOp::transpose, {inner.inputs[0]}, {{"perm", both}}, node.origin);
    }
  }
  if (node.op == TensorOp::reshape && inner.op == TensorOp::reshape)
    return add_node(graph, TensorOp::reshape, {inner.inputs[0]}, {{"shape", shape}}, node.origin);
  if (node.op == TensorOp::broadcast && inner.op == TensorOp::broadcast)
    return add_node(graph, TensorOp::broadcast, {inner.inputs[0]}, {{"shape", shape}}, node.origin);
  return {};
}

// Removes broadcasts of operands of a scalar op, which broadcasts by itself.
bool drop_broadcasts(Graph& graph, NodeId id) {
  if (!graph.nodes[id].op.is_scalar()) return false;
  bool changed = false;
  for (size_t i = 0; i < graph.nodes[id].inputs.size(); ++i) {
    const Node* inner = graph.producer(graph.nodes[id].inputs[i]);
    if (inner == nullptr || !(inner->op == TensorOp::broadcast)) continue;
    std::vector<ir::Type> types;
    for (ValueId v : graph.nodes[id].inputs) types.push_back(graph.type(v));
    types[i] = graph.type(inner->inputs[0]);
    const auto result = infer_type(graph.nodes[id].op, types, graph.nodes[id].attrs);
    if (!result.ok() || !(result->shape == graph.type(graph.nodes[id].output).shape)) continue;
    graph.nodes[id].inputs[i] = inner->inputs[0];
    changed = true;
  }
  return changed;
}

}  // namespace

Result<bool> simplify_maps(Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  bool dropped = false;
  rewriter.walk([&](NodeId id) {
    dropped = drop_broadcasts(graph, id) || dropped;
    const Node node = graph.nodes[id];
    ValueId value = node.output;
    if (is_identity(graph, node)) return rewriter.replace(value, node.inputs[0]);
    // A map may simplify twice, e.g. two transposes to one that keeps the order.
    for (int round = 0; round < 3; ++round) {
      const ValueId next = simpler(graph, *graph.producer(value));
      if (!next.valid()) break;
      value = next;
      if (is_identity(graph, *graph.producer(value))) value = graph.producer(value)->inputs[0];
      if (graph.producer(value) == nullptr) break;
    }
    rewriter.replace(node.output, value);
  });
  return rewriter.changed() || dropped;
}

namespace {

// Whether `to` is `from` with all but the last axis merged: [a, b, c] -> [a*b, c].
bool merges_leading(const Shape& from, const Shape& to) {
  if (to.size() != 2 || from.size() < 3 || !(from.back() == to.back())) return false;
  return num_elements(from) == num_elements(to);
}

}  // namespace

// matmul(reshape(x: [.., k] -> [m, k]), w: [k, n]) -> reshape(matmul(x, w))
Result<bool> sink_reshapes(Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  rewriter.walk([&](NodeId id) {
    const Node node = graph.nodes[id];
    if (node.op.is_scalar() && node.inputs.size() == 2) {
      // op(reshape(x), per-column vector) -> reshape(op(x, vector)), so that a bias stays next to its matmul.
      for (size_t side = 0; side < 2; ++side) {
        const Node* inner = graph.producer(node.inputs[side]);
        const ValueId other = node.inputs[1 - side];
        if (inner == nullptr || !(inner->op == TensorOp::reshape) || graph.is_constant(node.inputs[side])) continue;
        const ValueId x = inner->inputs[0];
        const Shape from = graph.type(x).shape, to = graph.type(node.output).shape;
        if (graph.type(other).rank() > 1 || !merges_leading(from, to) || !(graph.type(node.inputs[side]).shape == to))
          continue;
        std::vector<ValueId> inputs = node.inputs;
        inputs[side] = x;
        const ValueId result = add_node(graph, node.op, inputs, node.attrs, node.origin);
        return rewriter.replace(node.output,
                                add_node(graph, TensorOp::reshape, {result}, {{"shape", to}}, node.origin));
      }
      return;
    }
    if (!(node.op == TensorOp::matmul) || graph.type(node.inputs[1]).rank() != 2 || node.attrs.i("transpose_a") != 0)
      return;
    const Node* inner = graph.producer(node.inputs[0]);
    if (inner == nullptr || !(inner->op == TensorOp::reshape)) return;
    const ValueId x = inner->inputs[0];
    if (!merges_leading(graph.type(x).shape, graph.type(node.inputs[0]).shape)) return;
    const ValueId product = add_node(graph, TensorOp::matmul, {x, node.inputs[1]}, node.attrs, node.origin);
    rewriter.replace(node.output, add_node(graph, TensorOp::reshape, {product},
                                           {{"shape", Shape(graph.type(node.output).shape)}}, node.origin));
  });
  return rewriter.changed();
}

// Adds a reshape to its own shape for each output that is an input, a constant, or an output already.
Result<bool> own_outputs(Graph& graph, const PassContext&) {
  bool changed = false;
  std::vector<ValueId> seen;
  for (ValueId& v : graph.outputs) {
    const bool again = std::find(seen.begin(), seen.end(), v) != seen.end();
    const Node* node = graph.producer(v);
    if (again || node == nullptr || node->op == TensorOp::constant) {
      v = add_node(graph, TensorOp::reshape, {v}, {{"shape", Shape(graph.type(v).shape)}}, "output");
      changed = true;
    }
    seen.push_back(v);
  }
  return changed;
}

}  // namespace fusec::compiler

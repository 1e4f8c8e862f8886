// SPDX-License-Identifier: Apache-2.0
// Optimize pass: norms over whole images or groups of axes come with a reshape that merges the axes, and one that
// splits them again. Both hide the axes from passes that choose layouts: no transpose gets past them. The pass reduces
// over several axes instead.
//
//   m = reshape(x: [N, C, H, W] -> [N, 1, C*H*W]); reshape(op(m, reduce(m, axes = [2])) -> [N, C, H, W])
//     ->  op(x, reduce(x, axes = [1, 2, 3]))
//
// A reduction over adjacent axes has the bits of one over the merged axis, since lower merges them again.

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"

namespace fusec::compiler {
namespace {

// The axes that each axis of the merged shape consists of: `runs[b]` counts them. None: an axis of extent 1 was added.
using Runs = std::vector<std::size_t>;

// How `to` merges adjacent axes of `from`; nullopt if it does more than that, or nothing of that.
std::optional<Runs> find_runs(const Shape& from, const Shape& to) {
  Runs runs;
  std::size_t next = 0;
  for (const Dim& extent : to) {
    Dim product(1);
    std::size_t run = 0;
    if (!extent.is(1)) {
      do {
        if (next == from.size()) return std::nullopt;
        product = product * from[next++];
        ++run;
      } while (!(product == extent));
    } else if (next < from.size() && from[next].is(1)) {
      ++next, ++run;
    }
    runs.push_back(run);
  }
  const bool merges = std::any_of(runs.begin(), runs.end(), [](std::size_t run) { return run > 1; });
  return merges && next == from.size() ? std::optional(runs) : std::nullopt;
}

bool is_reduction(const Node& node) {
  switch (node.op.is_scalar() ? TensorOp::reshape : node.op.tensor()) {
    case TensorOp::reduce_sum:
    case TensorOp::reduce_mean:
    case TensorOp::reduce_max:
    case TensorOp::reduce_min:
    case TensorOp::reduce_prod:
      return true;
    default:
      return false;
  }
}

class Unmerging {
 public:
  explicit Unmerging(Graph& graph) : graph_(graph), rewriter_(graph) {}

  bool run() {
    find_reduced();
    rewriter_.walk([&](NodeId id) { visit(graph_.nodes[id]); });
    return rewriter_.changed();
  }

 private:
  // A merged value, and what it is before the merge.
  struct Merge {
    ValueId whole;
    Runs runs;
  };

  // Fills `reduced_`: reshapes that merge axes all of which a reduction of the value, or of scalar ops of it, reduces.
  void find_reduced() {
    for (const NodeId id : graph_.order) {
      const Node& node = graph_.nodes[id];
      if (!is_reduction(node)) continue;
      std::set<ValueId> seen;
      climb(node.inputs[0], graph_.type(node.inputs[0]).shape, node.attrs.ints("axes"), seen);
    }
  }

  void climb(ValueId v, const Shape& shape, const std::vector<int64_t>& axes, std::set<ValueId>& seen) {
    const Node* node = graph_.producer(v);
    if (node == nullptr || !(graph_.type(v).shape == shape) || !seen.insert(v).second) return;
    if (node->op.is_scalar()) {
      for (const ValueId input : node->inputs) climb(input, shape, axes, seen);
    } else if (node->op == TensorOp::reshape && !graph_.is_constant(node->inputs[0])) {
      const std::optional<Runs> runs = find_runs(graph_.type(node->inputs[0]).shape, shape);
      if (runs && reduces_all(*runs, axes)) reduced_.insert(v);
    }
  }

  static bool reduces_all(const Runs& runs, const std::vector<int64_t>& axes) {
    for (std::size_t b = 0; b < runs.size(); ++b) {
      const bool is_reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(b)) != axes.end();
      if (runs[b] > 1 && !is_reduced) return false;
    }
    return true;
  }

  void visit(const Node node) {
    if (node.op.is_scalar()) return sink_scalar(node);
    if (node.inputs.empty()) return;
    if (node.op == TensorOp::reshape && reduced_.contains(node.output)) {
      const ValueId x = node.inputs[0];
      merges_[node.output] = {x, *find_runs(graph_.type(x).shape, graph_.type(node.output).shape)};
      return;
    }
    const auto merge = merges_.find(node.inputs[0]);
    if (merge == merges_.end()) return;
    if (is_reduction(node)) return sink_reduction(node, merge->second);
    if (node.op == TensorOp::reshape && graph_.type(node.output).shape == graph_.type(merge->second.whole).shape)
      rewriter_.replace(node.output, merge->second.whole);
  }

  // op(merge(x), y) -> merge(op(x, y'))
  void sink_scalar(const Node& node) {
    const Shape& shape = graph_.type(node.output).shape;
    const Merge* first = nullptr;
    for (const ValueId v : node.inputs) {
      const auto merge = merges_.find(v);
      if (merge != merges_.end() && graph_.type(v).shape == shape && first == nullptr) first = &merge->second;
    }
    if (first == nullptr) return;
    const Runs runs = first->runs;
    const Shape whole = graph_.type(first->whole).shape;
    std::vector<ValueId> inputs;
    for (const ValueId v : node.inputs) inputs.push_back(unmerged(v, runs, whole, node.origin));
    const ValueId result = add_node(graph_, node.op, inputs, node.attrs, node.origin);
    const ValueId merged = add_node(graph_, TensorOp::reshape, {result}, {{"shape", Shape(shape)}}, node.origin);
    merges_[merged] = {result, runs};
    rewriter_.replace(node.output, merged);
  }

  // The operand with the axes of the whole, as broadcasting needs them.
  ValueId unmerged(ValueId v, const Runs& runs, const Shape& whole, const std::string& origin) {
    const auto merge = merges_.find(v);
    if (merge != merges_.end() && graph_.type(merge->second.whole).shape == whole) return merge->second.whole;
    const Shape shape = graph_.type(v).shape;
    if (shape.empty()) return v;
    const std::size_t missing = runs.size() - shape.size();
    Shape result;
    std::size_t next = 0;
    for (std::size_t b = 0; b < runs.size(); ++b) {
      const bool is_repeated = b < missing || shape[b - missing].is(1);
      for (std::size_t i = 0; i < runs[b]; ++i) result.push_back(is_repeated ? Dim(1) : whole[next + i]);
      next += runs[b];
    }
    return result == shape ? v : add_node(graph_, TensorOp::reshape, {v}, {{"shape", result}}, origin);
  }

  // reduce(merge(x)) -> reduce(x) over all axes of each merged one
  void sink_reduction(const Node& node, const Merge& merge) {
    const auto& axes = node.attrs.ints("axes");
    if (!reduces_all(merge.runs, axes)) return;
    std::vector<int64_t> all;
    int64_t next = 0;
    for (std::size_t b = 0; b < merge.runs.size(); ++b) {
      const bool is_reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(b)) != axes.end();
      for (std::size_t i = 0; i < merge.runs[b]; ++i, ++next)
        if (is_reduced) all.push_back(next);
    }
    ir::Attrs attrs = node.attrs;
    attrs.set("axes", all);
    const ValueId result = add_node(graph_, node.op, {merge.whole}, attrs, node.origin);
    const Shape shape = graph_.type(node.output).shape;
    rewriter_.replace(node.output, graph_.type(result).shape == shape ? result
                                                                      : add_node(graph_, TensorOp::reshape, {result},
                                                                                 {{"shape", shape}}, node.origin));
  }

  Graph& graph_;
  Rewriter rewriter_;
  std::set<ValueId> reduced_;
  std::map<ValueId, Merge> merges_;
};

}  // namespace

Result<bool> unmerge_axes(Graph& graph, const PassContext&) { return Unmerging(graph).run(); }

}  // namespace fusec::compiler

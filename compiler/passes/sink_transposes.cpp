// SPDX-License-Identifier: Apache-2.0
// Optimize pass: moves transposes behind scalar ops, reductions, pads, slices, concats and merges of pixels, toward the
// outputs. Transposes that meet are merged, and a transpose that meets its inverse disappears.

#include <algorithm>
#include <set>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"

namespace fusec::compiler {
namespace {

using Perm = std::vector<int64_t>;

class Sinking {
 public:
  Sinking(Graph& graph, const Target& target)
      : graph_(graph), target_(target), users_(users(graph)), rewriter_(graph) {}

  bool run() {
    rewriter_.walk([&](NodeId id) {
      const Node node = graph_.nodes[id];
      const ValueId value = sink(node);
      if (value.valid()) rewriter_.replace(node.output, value);
    });
    return rewriter_.changed();
  }

 private:
  // The transpose that produces the value, or null if another op does or if its operand is a constant.
  const Node* find_transpose(ValueId value) const {
    const Node* node = graph_.producer(value);
    return node != nullptr && node->op == TensorOp::transpose && !graph_.is_constant(node->inputs[0]) ? node : nullptr;
  }

  ValueId transposed(ValueId value, const Perm& perm, const std::string& origin) {
    if (std::is_sorted(perm.begin(), perm.end())) return value;
    // transpose(transpose(x)) -> one transpose of x
    if (const Node* inner = find_transpose(value)) {
      Perm both;
      for (int64_t p : perm) both.push_back(inner->attrs.ints("perm")[static_cast<size_t>(p)]);
      return transposed(inner->inputs[0], both, origin);
    }
    return add_node(graph_, TensorOp::transpose, {value}, {{"perm", perm}}, origin);
  }

  ValueId sink(const Node& node) {
    if (node.op.is_scalar()) return sink_scalar(node);
    if (node.inputs.empty()) return {};
    if (node.op == TensorOp::concat) return sink_concat(node);
    const Node* t = find_transpose(node.inputs[0]);
    if (t == nullptr) return {};
    const Perm perm = t->attrs.ints("perm");
    const ValueId x = t->inputs[0];
    switch (node.op.tensor()) {
      case TensorOp::transpose:
        return transposed(node.inputs[0], node.attrs.ints("perm"), node.origin);
      case TensorOp::reduce_sum:
      case TensorOp::reduce_mean:
      case TensorOp::reduce_max:
      case TensorOp::reduce_min:
      case TensorOp::reduce_prod:
        return sink_reduce(node, x, perm);
      case TensorOp::pad:
        return sink_pad(node, x, perm);
      case TensorOp::matmul:
        return sink_product(node, x, perm);
      case TensorOp::slice:
        return puts_channels_first(perm) ? sink_slice(node, x, perm) : ValueId();
      case TensorOp::reshape:
        return sink_reshape(node, x, perm);
      default:
        return {};
    }
  }

  // op(transpose(x), transpose(y), s) -> transpose(op(x, y, s')) where s' is s with its axes moved. Moving them costs
  // nothing for vectors and constants.
  ValueId sink_scalar(const Node& node) {
    const Node* first = nullptr;
    for (ValueId v : node.inputs)
      if (const Node* t = find_transpose(v);
          t != nullptr && first == nullptr && graph_.type(v).rank() == graph_.type(node.output).rank())
        first = t;
    if (first == nullptr) return {};
    const Perm perm = first->attrs.ints("perm");
    std::vector<ValueId> inputs;
    int free = 0, moved = 0;
    for (ValueId v : node.inputs) {
      const Node* t = find_transpose(v);
      if (t != nullptr && t->attrs.ints("perm") == perm) {
        inputs.push_back(t->inputs[0]);
        ++free;
        continue;
      }
      const ValueId back = untransposed(v, perm, node.origin);
      if (!back.valid()) ++moved;
      inputs.push_back(back);
    }
    if (moved > 0 && moved >= free) return {};  // it would add as many transposes as it removes
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!inputs[i].valid())
        inputs[i] = transposed(with_rank(node.inputs[i], perm.size(), node.origin), inverse(perm), node.origin);
    return transposed(add_node(graph_, node.op, inputs, node.attrs, node.origin), perm, node.origin);
  }

  static Perm inverse(const Perm& perm) {
    Perm result(perm.size());
    for (size_t i = 0; i < perm.size(); ++i) result[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
    return result;
  }

  static Shape padded(const Shape& shape, size_t rank) {
    Shape result(rank, Dim(1));
    std::copy(shape.begin(), shape.end(), result.end() - static_cast<std::ptrdiff_t>(shape.size()));
    return result;
  }

  // Prepends axes of extent 1 to v, as broadcasting does.
  ValueId with_rank(ValueId v, size_t rank, const std::string& origin) {
    const Shape& shape = graph_.type(v).shape;
    if (shape.size() == rank) return v;
    return add_node(graph_, TensorOp::reshape, {v}, {{"shape", padded(shape, rank)}}, origin);
  }

  // Emits v with its axes in the order before the transpose, if that moves no elements or v is constant; else returns
  // an invalid value.
  ValueId untransposed(ValueId v, const Perm& perm, const std::string& origin) {
    const Shape shape = graph_.type(v).shape;
    const size_t rank = perm.size();
    if (num_elements(shape).is(1) && shape.size() <= 1) return v;
    const Shape full = padded(shape, rank);
    Shape moved(rank);
    for (size_t i = 0; i < rank; ++i) moved[static_cast<size_t>(perm[i])] = full[i];
    // A reshape suffices if the axes longer than 1 keep their order.
    int64_t last = -1;
    bool ordered = true;
    for (size_t i = 0; i < rank; ++i) {
      if (full[i].is(1)) continue;
      ordered = ordered && perm[i] > last;
      last = perm[i];
    }
    if (ordered) return add_node(graph_, TensorOp::reshape, {v}, {{"shape", moved}}, origin);
    if (!graph_.is_constant(v)) return {};
    return add_node(graph_, TensorOp::transpose, {with_rank(v, rank, origin)}, {{"perm", inverse(perm)}}, origin);
  }

  // reduce(transpose(x)) -> transpose'(reduce(x)), over the same axes as numbered before the transpose
  ValueId sink_reduce(const Node& node, ValueId x, const Perm& perm) {
    const auto axes = node.attrs.ints("axes");
    std::vector<int64_t> mapped;
    for (int64_t a : axes) mapped.push_back(perm[static_cast<size_t>(a)]);
    std::sort(mapped.begin(), mapped.end());
    Perm kept;
    for (size_t i = 0; i < perm.size(); ++i) {
      if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end()) continue;
      const auto below = std::count_if(mapped.begin(), mapped.end(), [&](int64_t m) { return m < perm[i]; });
      kept.push_back(perm[i] - below);
    }
    const ValueId reduced = add_node(graph_, node.op, {x}, {{"axes", mapped}}, node.origin);
    return transposed(reduced, kept, node.origin);
  }

  ValueId sink_pad(const Node& node, ValueId x, const Perm& perm) {
    Shape before(perm.size()), after(perm.size());
    for (size_t i = 0; i < perm.size(); ++i) {
      before[static_cast<size_t>(perm[i])] = node.attrs.dims("before")[i];
      after[static_cast<size_t>(perm[i])] = node.attrs.dims("after")[i];
    }
    ir::Attrs attrs = node.attrs;
    attrs.set("before", before);
    attrs.set("after", after);
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = x;
    return transposed(add_node(graph_, TensorOp::pad, inputs, attrs, node.origin), perm, node.origin);
  }

  ValueId sink_concat(const Node& node) {
    const Node* first = find_transpose(node.inputs[0]);
    if (first == nullptr) return {};
    const Perm perm = first->attrs.ints("perm");
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) {
      const Node* t = find_transpose(v);
      if (t == nullptr || t->attrs.ints("perm") != perm) return {};
      inputs.push_back(t->inputs[0]);
    }
    const int64_t axis = perm[static_cast<size_t>(node.attrs.i("axis"))];
    return transposed(add_node(graph_, TensorOp::concat, inputs, {{"axis", axis}}, node.origin), perm, node.origin);
  }

  // transpose(x) * w -> transpose(w' * x) for a constant w, if the transpose of the product is needed: an MLP over the
  // pixels of each channel then reads and writes channels last, as all around it does. On a CPU one product of all
  // images is faster than one for each.
  ValueId sink_product(const Node& node, ValueId x, const Perm& perm) {
    const size_t rank = perm.size();
    // A library reads the operands of an attention in any order, and one product of all rows is faster than one for
    // each part of them.
    if (keeps_rows(node, perm) && leads_to_attention(graph_, users_, node.output))
      return transposed(add_node(graph_, TensorOp::matmul, {x, node.inputs[1]}, node.attrs, node.origin), perm,
                        node.origin);
    const bool swaps = rank >= 3 && std::is_sorted(perm.begin(), perm.end() - 2) &&
                       perm[rank - 2] == static_cast<int64_t>(rank) - 1 &&
                       perm[rank - 1] == static_cast<int64_t>(rank) - 2;
    const ValueId weights = node.inputs[1];
    if (target_.kind != TargetKind::cuda || !swaps || !graph_.is_constant(weights) ||
        graph_.type(weights).rank() != 2 || node.attrs.i("transpose_a") != 0)
      return {};
    if (!meets(node.output, perm)) return {};
    const ir::Attrs attrs{{"transpose_a", 1 - node.attrs.i("transpose_b")}, {"transpose_b", int64_t{0}}};
    return transposed(add_node(graph_, TensorOp::matmul, {weights, x}, attrs, node.origin), perm, node.origin);
  }

  // Whether the transpose moves whole rows that are multiplied by one matrix.
  bool keeps_rows(const Node& node, const Perm& perm) const {
    const ValueId weights = node.inputs[1];
    return perm.size() >= 3 && perm.back() == static_cast<int64_t>(perm.size()) - 1 && graph_.is_constant(weights) &&
           graph_.type(weights).rank() == 2 && node.attrs.i("transpose_a") == 0;
  }

  // Whether the only users of the value, by way of scalar ops and products with constants, are transposes by this perm.
  bool meets(ValueId value, const Perm& perm) const {
    std::set<ValueId> seen;
    return only_meets(value, perm, seen);
  }

  bool only_meets(ValueId value, const Perm& perm, std::set<ValueId>& seen) const {
    if (!seen.insert(value).second) return true;
    const std::vector<NodeId>& readers = users_[value];
    return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](NodeId id) {
      const Node& user = graph_.nodes[id];
      if (user.op == TensorOp::transpose) return user.attrs.ints("perm") == perm;
      const bool passes = user.op.is_scalar() || (user.op == TensorOp::matmul && graph_.is_constant(user.inputs[1]));
      return passes && only_meets(user.output, perm, seen);
    });
  }

  // Whether it is the perm that channels_last puts behind its ops. Others mostly serve a product's operands, which
  // libraries read through strides.
  static bool puts_channels_first(const Perm& perm) {
    for (size_t i = 2; i < perm.size(); ++i)
      if (perm[i] != static_cast<int64_t>(i) - 1) return false;
    return perm.size() >= 3 && perm[0] == 0;
  }

  // slice(transpose(x)) -> transpose(slice(x)), along the same axes as numbered before the transpose
  ValueId sink_slice(const Node& node, ValueId x, const Perm& perm) {
    Shape starts(perm.size()), sizes(perm.size());
    std::vector<int64_t> steps(perm.size());
    for (size_t i = 0; i < perm.size(); ++i) {
      const auto from = static_cast<size_t>(perm[i]);
      starts[from] = node.attrs.dims("starts")[i];
      sizes[from] = node.attrs.dims("sizes")[i];
      steps[from] = node.attrs.ints("steps")[i];
    }
    const ir::Attrs attrs{{"starts", starts}, {"sizes", sizes}, {"steps", steps}};
    return transposed(add_node(graph_, TensorOp::slice, {x}, attrs, node.origin), perm, node.origin);
  }

  ValueId sink_reshape(const Node& node, ValueId x, const Perm& perm) {
    if (moves_ones(graph_.type(x).shape, perm))
      return add_node(graph_, TensorOp::reshape, {x}, {{"shape", Shape(graph_.type(node.output).shape)}}, node.origin);
    return puts_channels_first(perm) ? sink_merge(node, x, perm) : ValueId();
  }

  // Whether the transpose only moves axes of extent 1.
  static bool moves_ones(const Shape& shape, const Perm& perm) {
    int64_t last = -1;
    for (int64_t p : perm) {
      if (shape[static_cast<size_t>(p)].is(1)) continue;
      if (p < last) return false;
      last = p;
    }
    return true;
  }

  // reshape(transpose(x: [N, H, W, C]) -> [N, C, H*W]) -> transpose(reshape(x -> [N, H*W, C]))
  ValueId sink_merge(const Node& node, ValueId x, const Perm& perm) {
    const Shape& image = graph_.type(x).shape;
    const Shape to = graph_.type(node.output).shape;
    Dim pixels(1);
    for (size_t i = 1; i + 1 < image.size(); ++i) pixels = pixels * image[i];
    if (to.size() != 3 || perm.size() < 4 || !(to == Shape{image[0], image.back(), pixels})) return {};
    const ValueId merged =
        add_node(graph_, TensorOp::reshape, {x}, {{"shape", Shape{to[0], to[2], to[1]}}}, node.origin);
    return transposed(merged, {0, 2, 1}, node.origin);
  }

  Graph& graph_;
  const Target& target_;
  const ir::IdVector<ValueId, std::vector<NodeId>> users_;  // before the pass
  Rewriter rewriter_;
};

}  // namespace

Result<bool> sink_transposes(Graph& graph, const PassContext& context) { return Sinking(graph, context.target).run(); }

}  // namespace fusec::compiler

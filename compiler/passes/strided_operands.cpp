// SPDX-License-Identifier: Apache-2.0
// Optimize pass, for GPUs: lets a library read the operands of a matrix product where they lie, so that no kernel
// copies them. It serves the attentions that no library computes as one call.
//
//   (a s) (b t)                        ->  (a b) (s t)            numbers s and t, where a kernel reads the product
//   reshape(transpose(a)) b            ->  transpose(reshape(a)) b        if the reshape splits axes
//   a [n, g r, s, k]  b [n, g, k, t],  ->  reshape(a) [n, g, r s, k]  b [n, g, k, t]
//     each matrix of b read r times
//
// A factor moves only away from the result of a library's call, where it would be a kernel of its own, and only in f32
// and f64, whose range it cannot leave. The product of the factors is rounded once, and so is each result, where each
// element of a and b was rounded before. Not in exact numerics.

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/partition/domain.h"
#include "compiler/partition/graph_names.h"
#include "compiler/passes/map_order.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/product_readers.h"
#include "compiler/passes/rewriter.h"
#include "ir/ops/cast.h"

namespace fusec::compiler {
namespace {

constexpr int kMaxOperandMaps = 12;     // between an operand and what is stored
constexpr double kMaxFactor = 0x1p+20;  // and at least its reciprocal: products of all but huge numbers stay finite

class OperandViews {
 public:
  OperandViews(Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), users_(users(graph)), readers_(graph, context, users_), rewriter_(graph) {}

  bool run() {
    rewriter_.walk([&](NodeId id) {
      const Node node = graph_.nodes[id];
      if (!(node.op == TensorOp::matmul) || !is_library_product(context_, graph_.type(node.output).dtype)) return;
      if (const ValueId result = placed(node); result.valid()) rewriter_.replace(node.output, result);
    });
    // Passes behind this one ask for all users of a value: nodes that were tried and not taken are none.
    if (!rewriter_.changed()) rebuild_order(graph_);
    return rewriter_.changed();
  }

 private:
  struct Unscaled {
    ValueId value;
    double factor = 1;
  };

  const Shape& shape(ValueId v) const { return graph_.type(v).shape; }
  std::size_t uses(ValueId v) const { return v.index < users_.size() ? users_[v].size() : 0; }

  // The product on other operands; invalid if it stays.
  ValueId placed(const Node& node) {
    Node call = node;
    double factor = 1;
    if (is_wide(node) && readers_.are_kernels(node.output)) {
      for (ValueId& operand : call.inputs) {
        const std::optional<Unscaled> found = unscaled(operand);
        if (!found || !is_moderate(factor * found->factor)) continue;
        operand = found->value;
        factor *= found->factor;
      }
    }
    for (std::size_t i = 0; i < 2; ++i) split_before_transpose(call, i);
    ValueId result = share_matrices(call);
    if (!result.valid() && call.inputs == node.inputs) return {};
    if (!result.valid()) result = add_node(graph_, TensorOp::matmul, call.inputs, node.attrs, node.origin);
    if (factor == 1) return result;
    const ValueId number = add_scalar_constant(graph_, graph_.type(result).dtype, factor);
    return add_node(graph_, ScalarOp::mul, {result, number}, {}, node.origin);
  }

  bool is_wide(const Node& node) const {
    const DType dtype = graph_.type(node.output).dtype;
    return dtype == DType::f32 || dtype == DType::f64;
  }
  static bool is_moderate(double factor) {
    return std::abs(factor) <= kMaxFactor && std::abs(factor) >= 1 / kMaxFactor;
  }

  // The operand without the numbers that it is multiplied with, if a library's call computes what they multiply.
  std::optional<Unscaled> unscaled(ValueId operand) {
    std::vector<NodeId> maps;                             // the last one first
    std::optional<std::pair<ValueId, std::size_t>> base;  // what is multiplied, and how many of the maps lie behind it
    double factor = 1;
    ValueId v = operand;
    for (int step = 0; step < kMaxOperandMaps; ++step) {
      const Node* node = graph_.producer(v);
      if (node == nullptr || uses(v) != 1) break;
      if (is_map(*node)) {
        maps.push_back(graph_.values[v].producer);
        v = node->inputs[0];
        continue;
      }
      const std::optional<Unscaled> inner = multiplied(*node);
      if (!inner) break;
      factor *= inner->factor;
      v = inner->value;
      base = {v, maps.size()};
    }
    if (!base || !is_stored_by_call(base->first)) return std::nullopt;
    v = base->first;
    for (std::size_t i = base->second; i-- > 0;) {
      const Node map = graph_.nodes[maps[i]];
      v = add_node(graph_, map.op, {v}, map.attrs, map.origin);
    }
    return Unscaled{v, factor};
  }

  // x of x * number, number * x or x / number.
  std::optional<Unscaled> multiplied(const Node& node) const {
    if (!(node.op == ScalarOp::mul) && !(node.op == ScalarOp::div)) return std::nullopt;
    for (std::size_t side = 0; side < (node.op == ScalarOp::div ? 1 : 2); ++side) {
      const Tensor* const data = graph_.constant(node.inputs[1 - side]);
      if (data == nullptr || data->num_elements() != 1 || !(shape(node.inputs[side]) == shape(node.output))) continue;
      const double number = ir::load_double(data->dtype(), data->data());
      if (!is_moderate(number)) continue;
      return Unscaled{node.inputs[side], node.op == ScalarOp::div ? 1 / number : number};
    }
    return std::nullopt;
  }

  // Whether the value is a part of what a library's call stores, with a bias.
  bool is_stored_by_call(ValueId v) const {
    for (int step = 0; step < kMaxOperandMaps; ++step) {
      const Node* node = graph_.producer(v);
      if (node == nullptr) return false;
      if (!node->op.is_scalar() && ir::is_product(node->op.tensor())) return true;
      if (node->op == ScalarOp::add) {
        const bool first = graph_.is_constant(node->inputs[1]);
        if (!first && !graph_.is_constant(node->inputs[0])) return false;
        v = node->inputs[first ? 0 : 1];
        node = graph_.producer(v);
        return node != nullptr && !node->op.is_scalar() && ir::is_product(node->op.tensor());
      }
      if (!is_map(*node)) return false;
      v = node->inputs[0];
    }
    return false;
  }

  static bool is_map(const Node& node) { return !node.op.is_scalar() && is_plain_map(node.op); }

  // How the value lies if what its maps read is stored in order.
  std::optional<StridedView> view(ValueId v) const {
    const Node* node = graph_.producer(v);
    if (node != nullptr && is_map(*node)) {
      const std::optional<StridedView> in = view(node->inputs[0]);
      return in ? view_through(graph_, *node, *in) : std::nullopt;
    }
    return StridedView{v, 0, shape(v), contiguous_strides(shape(v)), std::vector<bool>(shape(v).size())};
  }

  bool is_read(const Node& call, std::size_t i) const {
    const std::optional<StridedView> found = view(call.inputs[i]);
    return found && readers_.reads(call, i, *found);
  }

  // Fewer maps are taken, too, where the operand is read already: a part of a longer row may have no merged axes.
  void split_before_transpose(Node& call, std::size_t i) {
    const ValueId before = call.inputs[i];
    if (graph_.is_constant(before)) return;
    const bool was_read = is_read(call, i);
    call.inputs[i] = reordered(before);
    if (!is_read(call, i) || (was_read && maps(call.inputs[i]) >= maps(before))) call.inputs[i] = before;
  }

  int maps(ValueId v) const {
    int count = 0;
    for (const Node* node = graph_.producer(v); node != nullptr && is_map(*node);
         node = graph_.producer(node->inputs[0]))
      ++count;
    return count;
  }

  // The value with splits of axes in front of its transposes.
  ValueId reordered(ValueId v, int steps = kMaxOperandMaps) {
    const Node* const made = graph_.producer(v);
    if (made == nullptr || steps == 0) return v;
    const Node node = *made;
    if (node.op == TensorOp::reshape) return reshaped(graph_, node.inputs[0], shape(v), node.origin);
    if (!(node.op == TensorOp::transpose)) return v;
    const ValueId inner = reordered(node.inputs[0], steps - 1);
    return inner == node.inputs[0] ? v : transposed(graph_, inner, node.attrs.ints("perm"), node.origin);
  }

  // The product whose right matrices serve several left ones each, which become one of more rows.
  ValueId share_matrices(const Node& call) {
    // Heads of the result that a call reads are stored side by side, which those of more rows cannot be.
    if (call.attrs.i("transpose_a") == 1 || !readers_.are_kernels(call.output) || is_read(call, 1)) return {};
    ValueId merged = call.inputs[1];
    const std::size_t rank = shape(merged).size();
    const Node* made = graph_.producer(merged);
    const bool swapped = made != nullptr && rank >= 3 && made->op == TensorOp::transpose && swaps_last(*made);
    if (swapped) merged = made->inputs[0];
    const std::optional<Dim> count = groups(merged);
    const Shape left = shape(call.inputs[0]);
    if (!count || left.size() != rank ||
        !std::equal(left.begin(), left.end() - 2, shape(merged).begin(), shape(merged).end() - 2))
      return {};
    const std::optional<Dim> repeats = left[rank - 3].exact_div(*count);
    if (!repeats) return {};
    Shape taller = left, once = shape(merged);
    taller[rank - 3] = once[rank - 3] = *count;
    taller[rank - 2] = left[rank - 2] * *repeats;
    Node shared = call;
    shared.inputs[0] = reshaped(graph_, call.inputs[0], taller, call.origin);
    shared.inputs[1] = reshaped(graph_, repeated(merged), once, call.origin);
    if (swapped) shared.inputs[1] = transposed(graph_, shared.inputs[1], swapped_perm(rank), call.origin);
    if (!is_read(shared, 0) || !is_read(shared, 1)) return {};
    const ValueId product = add_node(graph_, TensorOp::matmul, shared.inputs, call.attrs, call.origin);
    return add_node(graph_, TensorOp::reshape, {product}, {{"shape", Shape(shape(call.output))}}, call.origin);
  }

  static std::vector<int64_t> swapped_perm(std::size_t rank) {
    std::vector<int64_t> perm(rank);
    for (std::size_t i = 0; i < rank; ++i) perm[i] = static_cast<int64_t>(i);
    std::swap(perm[rank - 1], perm[rank - 2]);
    return perm;
  }
  static bool swaps_last(const Node& transpose) {
    const std::vector<int64_t>& perm = transpose.attrs.ints("perm");
    return perm == swapped_perm(perm.size());
  }

  // x of reshape(broadcast(x)).
  ValueId repeated(ValueId v) const { return graph_.producer(graph_.producer(v)->inputs[0])->inputs[0]; }

  // g of reshape(broadcast(x: [..., g, 1, a, b] -> [..., g, r, a, b]) -> [..., g r, a, b])
  std::optional<Dim> groups(ValueId v) const {
    const Node* merge = graph_.producer(v);
    if (merge == nullptr || !(merge->op == TensorOp::reshape)) return std::nullopt;
    const Node* repeat = graph_.producer(merge->inputs[0]);
    if (repeat == nullptr || !(repeat->op == TensorOp::broadcast)) return std::nullopt;
    const Shape &to = shape(repeat->output), &all = shape(v), &from = shape(repeat->inputs[0]);
    const std::size_t rank = all.size();
    if (rank < 3 || to.size() != rank + 1) return std::nullopt;
    Shape expected = to;
    expected[rank - 2] = Dim(1);
    if (!(from == expected)) return std::nullopt;
    Shape whole = to;
    whole.erase(whole.begin() + static_cast<std::ptrdiff_t>(rank) - 2);
    whole[rank - 3] = to[rank - 3] * to[rank - 2];
    return whole == all ? std::optional(to[rank - 3]) : std::nullopt;
  }

  Graph& graph_;
  const PassContext& context_;
  const ir::IdVector<ValueId, std::vector<NodeId>> users_;  // before the pass
  const ProductReaders readers_;
  Rewriter rewriter_;
};

}  // namespace

Result<bool> strided_operands(Graph& graph, const PassContext& context) {
  if (context.target.kind != TargetKind::cuda || !context.options.fuse || context.options.numerics == Numerics::exact)
    return false;
  return OperandViews(graph, context).run();
}

}  // namespace fusec::compiler

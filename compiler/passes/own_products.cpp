// SPDX-License-Identifier: Apache-2.0
// Optimize pass, for GPUs: writes products of 16-bit floats by constant matrices out where memory bounds them, so that
// partition makes one kernel of each and what surrounds it. A library would read and write memory once more for all
// that it does not fuse, and takes a multiple of the time of the traffic where sums or results are few. Convolutions of
// one position are such products, too.
//
//   y[..., j] = sum over k of a[..., 1, k] * b[j, k]
//
// Products and sums are f32. A bias is added, and an activation computed, before the result is rounded.
//
// The f32 products of gates, as in squeeze-and-excitation, are written out, too: each is one row of means by a small
// matrix for each image, and a launch takes longer than such a sum.

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"
#include "ir/kernel/kernel.h"
#include "ir/kernel/tile_memory.h"

namespace fusec::compiler {
namespace {

// The most products for each element that is read or written: n k / (n + k). Measured on an H100, batches of 64: up to
// the first number a kernel is as fast as the library or faster, up to the second if it does what the library would
// leave to another kernel.
constexpr double kMaxPlainIntensity = 45, kMaxFusedIntensity = 100;
// Larger products, too, where the target multiplies tiles by warpgroups, if a kernel takes in an activation that no
// library fuses: a kernel written by hand took 106 us for 12608 x 3072 x 768 with a gelu on an H100, where cuBLASLt
// takes 95 and the kernel of the gelu 57. Products whose rows are known and fill no GPU stay calls. Where only a run
// knows how many there are, this decides.
constexpr bool kOwnsLargeProducts = true;
// Elements of a gate's matrix, which each image reads from the cache.
constexpr double kMaxGateMatrix = 131072;
constexpr int kMaxGateSteps = 12;  // from the product back to the means

class OwnProduct : Expansion {
 public:
  OwnProduct(Graph& graph, const Node& node) : Expansion(graph, node) {}

  // The sum, with the bias of a convolution.
  ValueId build() {
    const ValueId x = in(0);
    const Shape shape = type(x).shape;
    const ValueId a = cast(reshape(x, inserted(shape, shape.size() - 1, 1)), DType::f32);
    const ValueId products = node(ScalarOp::mul, {a, cast(matrix(), DType::f32)});
    const ValueId sums = reduce(TensorOp::reduce_sum, products, shape.size());
    return node_.inputs.size() > 2 ? node(ScalarOp::add, {sums, cast(in(2), DType::f32)}) : sums;
  }

 private:
  // [results, terms]
  ValueId matrix() {
    const ValueId w = in(1);
    if (node_.op == TensorOp::conv) return reshape(w, {type(w).shape[0], type(w).shape[1]});
    if (node_.attrs.i("transpose_b") == 1) return w;
    return node(TensorOp::transpose, {w}, {{"perm", std::vector<int64_t>{1, 0}}});
  }
};

// The number of terms and of results of a product by a constant matrix, which may be converted.
struct Matrix {
  int64_t n = 0, k = 0;
  double area() const { return static_cast<double>(n) * static_cast<double>(k); }
};
std::optional<Matrix> constant_matrix(const Graph& graph, const Node& node) {
  const bool is_matmul = node.op == TensorOp::matmul;
  if (!is_matmul && !(node.op == TensorOp::conv)) return std::nullopt;
  const DType dtype = graph.type(node.output).dtype;
  for (const ValueId input : node.inputs)
    if (graph.type(input).dtype != dtype) return std::nullopt;
  ValueId w = node.inputs[1];
  const NodeId producer = graph.values[w].producer;
  if (producer.valid() && graph.nodes[producer].op == ScalarOp::cast) w = graph.nodes[producer].inputs[0];
  const Shape& shape = graph.type(w).shape;
  if (!graph.is_constant(w) || !is_const(shape)) return std::nullopt;
  if (!is_matmul) {
    if (!is_of_points(graph, node)) return std::nullopt;
    return Matrix{shape[0].value(), shape[1].value()};
  }
  if (shape.size() != 2 || graph.type(node.inputs[0]).rank() < 2 || node.attrs.i("transpose_a") == 1)
    return std::nullopt;
  const bool transposed = node.attrs.i("transpose_b") == 1;
  return Matrix{shape[transposed ? 0 : 1].value(), shape[transposed ? 1 : 0].value()};
}

// Whether the product has one row for each image.
bool is_of_images(const Graph& graph, const Node& node) {
  const Shape& shape = graph.type(node.inputs[0]).shape;
  return std::all_of(shape.begin() + 1, shape.end() - 1, [](const Dim& extent) { return extent.is(1); });
}

// A continuous op of one float, which may read a sum before that is rounded.
bool is_activation(const Node& node) {
  return node.inputs.size() == 1 && node.op.is_scalar() && info(node.op.scalar()).typing == ir::Typing::float_ &&
         !has(node.op.scalar(), ir::OpFlag::discontinuous);
}

class Choice {
 public:
  Choice(const Graph& graph, const PassContext& context) : graph_(graph), context_(context), users_(users(graph)) {}

  bool is_own_product(const Node& node) const {
    const std::optional<Matrix> matrix = constant_matrix(graph_, node);
    const DType dtype = graph_.type(node.output).dtype;
    if (!matrix) return false;
    if (dtype == DType::f32)
      return is_of_images(graph_, node) && comes_from_means(node) && matrix->area() <= kMaxGateMatrix;
    if (!is_16_bit_float(dtype) || context_.target.sm < ir::kFirstMmaSm || matrix->n % 2 != 0 || matrix->k % 2 != 0)
      return false;
    if (kOwnsLargeProducts && context_.target.has_tile_products && suits_tiles(node, *matrix) && fuses_activation(node))
      return true;
    const double most = fuses_more(node) ? kMaxFusedIntensity : kMaxPlainIntensity;
    return !is_library_product(context_, dtype) || matrix->area() <= most * static_cast<double>(matrix->n + matrix->k);
  }

 private:
  // Whether a kernel takes in what no library of GPUs fuses: an op behind the product that is neither a bias nor one of
  // their epilogues, or a multiplication before it, as by a gate.
  bool fuses_more(const Node& node) const {
    if (fuses_unary(node)) return true;
    ValueId v = node.inputs[0];
    const Node* before = skip_casts(v);
    if (before != nullptr && before->op == ScalarOp::mul && only_user(v) != nullptr) return true;
    return follows_batch_norm(v);
  }
  // The producer of v or, where casts alone lead from it to v, of their operand, which becomes v.
  const Node* skip_casts(ValueId& v) const {
    const Node* before = producer(v);
    while (before != nullptr && before->op == ScalarOp::cast && only_user(v) != nullptr) {
      v = before->inputs[0];
      before = producer(v);
    }
    return before;
  }
  // Whether v = relu(x * scale + shift), with a scale and a shift for each term, nothing else reads the steps, and a
  // library makes x. A kernel that makes x computes the steps, too, and a concat would have to be stored first.
  bool follows_batch_norm(ValueId v) const {
    const auto is_for_terms = [&](ValueId operand) {
      return num_elements(graph_.type(operand).shape) == graph_.type(v).shape.back();
    };
    for (const ScalarOp op : {ScalarOp::relu, ScalarOp::add, ScalarOp::mul}) {
      const Node* before = skip_casts(v);
      if (before == nullptr || only_user(v) == nullptr || !(before->op == op)) return false;
      if (op != ScalarOp::relu && !is_for_terms(before->inputs[1])) return false;
      v = before->inputs[0];
    }
    const Node* source = producer(v);
    if (source == nullptr) return false;
    if (!(source->op == ScalarOp::add)) return is_call(*source);
    return std::any_of(source->inputs.begin(), source->inputs.end(), [&](ValueId operand) {  // a residual
      const Node* summand = producer(operand);
      return summand != nullptr && is_call(*summand);
    });
  }
  static bool is_call(const Node& node) { return node.op == TensorOp::conv || node.op == TensorOp::matmul; }
  // Whether every library of the target that has the product fuses the op into it.
  bool is_epilogue(const Node& node, ScalarOp op) const {
    const DType dtype = graph_.type(node.output).dtype;
    const std::vector<const ir::LibraryCapabilities*> libraries = ir::libraries_of(context_.target);
    return std::all_of(libraries.begin(), libraries.end(), [&](const ir::LibraryCapabilities* library) {
      return !ir::contains(library->ops, node.op.tensor()) || ir::fuses(library->epilogues, op, dtype, {});
    });
  }
  // The result of the product, with its bias.
  ValueId biased(const Node& node) const {
    const Node* next = only_user(node.output);
    const bool is_bias = next != nullptr && next->op == ScalarOp::add && next->inputs.size() == 2 &&
                         (graph_.is_constant(next->inputs[0]) || graph_.is_constant(next->inputs[1]));
    return is_bias ? next->output : node.output;
  }
  // Whether an op of one operand that no library fuses follows.
  bool fuses_unary(const Node& node) const {
    const Node* next = only_user(biased(node));
    return next != nullptr && next->inputs.size() == 1 && next->op.is_scalar() &&
           !is_epilogue(node, next->op.scalar()) && !(next->op == ScalarOp::cast);
  }
  // Whether an activation follows: of one op, or x * sigmoid(x) or a gelu by erf, whose ops read x twice. One that
  // gates another value does not count: beside the sums there are no registers to read that value.
  bool fuses_activation(const Node& node) const {
    if (fuses_unary(node)) {
      const Node* gated = only_user(only_user(biased(node))->output);
      return gated == nullptr || !(gated->op == ScalarOp::mul) || graph_.is_constant(gated->inputs[0]) ||
             graph_.is_constant(gated->inputs[1]);
    }
    const std::vector<NodeId>& list = users_[biased(node)];
    return list.size() == 2 && std::any_of(list.begin(), list.end(), [&](NodeId id) {
             const Node* at = &graph_.nodes[id];
             const bool scales = at->inputs.size() == 2 && (at->op == ScalarOp::div || at->op == ScalarOp::mul) &&
                                 (graph_.is_constant(at->inputs[0]) || graph_.is_constant(at->inputs[1]));
             if (scales) at = only_user(at->output);
             return at != nullptr && (at->op == ScalarOp::erf || at->op == ScalarOp::sigmoid);
           });
  }
  // Whether cuda_warpgroup_product schedules it.
  bool suits_tiles(const Node& node, const Matrix& matrix) const {
    if (matrix.n % ir::kTileLanes != 0 || matrix.k % ir::kTileLanes != 0) return false;
    const Dim elements = num_elements(graph_.type(node.output).shape);
    return !elements.is_const() ||
           elements.value() >= ir::rows_that_fill(context_.target.sm_count, matrix.n) * matrix.n;
  }
  // Whether what the product reads is made of means, maybe by way of other products and activations. Other products of
  // few columns have as many rows as a batch has samples, and those may be many.
  bool comes_from_means(const Node& node) const {
    const Node* at = &node;
    for (int steps = 0; at != nullptr && steps < kMaxGateSteps; ++steps) {
      if (is_kind(at->op, ir::OpPattern::reduction)) return true;
      const auto from =
          std::find_if(at->inputs.begin(), at->inputs.end(), [&](ValueId v) { return !graph_.is_constant(v); });
      at = from != at->inputs.end() ? producer(*from) : nullptr;
    }
    return false;
  }
  const Node* only_user(ValueId v) const {
    const std::vector<NodeId>& list = users_[v];
    return list.size() == 1 ? &graph_.nodes[list[0]] : nullptr;
  }
  const Node* producer(ValueId v) const {
    const NodeId id = graph_.values[v].producer;
    return id.valid() ? &graph_.nodes[id] : nullptr;
  }

  const Graph& graph_;
  const PassContext& context_;
  const ir::IdVector<ValueId, std::vector<NodeId>> users_;  // before the pass
};

}  // namespace

std::set<NodeId> own_product_nodes(const Graph& graph, const PassContext& context) {
  std::set<NodeId> own;
  if (context.target.kind != TargetKind::cuda || !context.options.fuse || context.options.numerics == Numerics::exact)
    return own;
  const Choice choice(graph, context);
  for (const NodeId id : graph.order)
    if (choice.is_own_product(graph.nodes[id])) own.insert(id);
  return own;
}

Result<bool> own_products(Graph& graph, const PassContext& context) {
  const std::set<NodeId> own = own_product_nodes(graph, context);
  if (own.empty()) return false;
  const auto uses = use_counts(graph);
  std::map<ValueId, ValueId> sums;  // of the results that one node reads
  Rewriter rewriter(graph);
  rewriter.walk([&](NodeId id) {
    const Node node = graph.nodes[id];
    if (own.contains(id)) {
      const ValueId sum = OwnProduct(graph, node).build();
      const DType dtype = graph.type(node.output).dtype;
      const ValueId result =
          dtype == DType::f32 ? sum : add_node(graph, ScalarOp::cast, {sum}, {{"to", dtype}}, node.origin);
      if (result != sum && uses[node.output] == 1) sums[result] = sum;
      return rewriter.replace(node.output, result);
    }
    const auto follow = [&](ScalarOp op, std::vector<ValueId> inputs) {
      const ValueId wide = add_node(graph, op, std::move(inputs), {}, node.origin);
      const ValueId result =
          add_node(graph, ScalarOp::cast, {wide}, {{"to", graph.type(node.output).dtype}}, node.origin);
      if (uses[node.output] == 1) sums[result] = wide;
      rewriter.replace(node.output, result);
    };
    if (is_activation(node)) {
      const auto sum = sums.find(node.inputs[0]);
      if (sum != sums.end()) follow(node.op.scalar(), {sum->second});
    }
    if (!(node.op == ScalarOp::add)) return;
    for (const std::size_t i : {size_t{0}, size_t{1}}) {
      const auto sum = sums.find(node.inputs[i]);
      const ValueId bias = node.inputs[1 - i];
      if (sum == sums.end() || !graph.is_constant(bias)) continue;
      const ir::Type type = graph.type(node.output);
      const Shape& shape = graph.type(bias).shape;
      if (!(type == graph.type(node.inputs[i])) || shape.empty() || !(shape.back() == type.shape.back()) ||
          !(num_elements(shape) == shape.back()))
        continue;
      return follow(ScalarOp::add,
                    {sum->second, add_node(graph, ScalarOp::cast, {bias}, {{"to", DType::f32}}, node.origin)});
    }
  });
  return rewriter.changed();
}

}  // namespace fusec::compiler

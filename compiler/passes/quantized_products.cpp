// SPDX-License-Identifier: Apache-2.0
// Optimize pass, for GPUs: writes the product of one row by a matrix out whose elements are made of 8-bit integers, as
// DequantizeLinear makes them. A kernel then reads one byte for each element, where a library would read two or four of
// what fold_constants would make of them. It runs in front of that pass.
//
//   matmul(x, (q - zero) * scale)  ->  sum over k of x[k] * ((q[n, k] - zero[n]) * scale[n])
//
// Several rows would convert the matrix once for each, so the number of rows must be known to be 1.

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"

namespace fusec::compiler {
namespace {

// The fewest elements of a matrix: a GPU reads 3 bytes of each ns, and a library's call takes 2 us at least. Products
// of one value are one call of a library (merge_products), so that each of several would take a launch of its own.
constexpr int64_t kMinElements = 1 << 20, kMinOfSeveral = 6 << 20;
constexpr int kQuantizedSteps = 8;  // from the product back to the integers

// What makes the matrix: ops on one operand and a parameter, in order.
struct Quantized {
  ValueId integers;  // [rows, columns]
  bool transposed = false;
  struct Step {
    ScalarOp op = ScalarOp::cast;
    DType dtype = DType::f32;  // of the result
    ValueId parameter;         // of sub and mul
  };
  std::vector<Step> steps;
};

bool is_8_bit(DType dtype) { return dtype == DType::i8 || dtype == DType::u8; }

class FindQuantized {
 public:
  explicit FindQuantized(const Graph& graph) : graph_(graph), users_(users(graph)) {}

  std::optional<Quantized> find(const Node& product) const {
    if (!(product.op == TensorOp::matmul) || product.attrs.i("transpose_a") == 1) return std::nullopt;
    const Shape &shape = graph_.type(product.inputs[1]).shape, &out = graph_.type(product.output).shape;
    const int64_t least = is_read_by_several(product.inputs[0]) ? kMinOfSeveral : kMinElements;
    if (shape.size() != 2 || !is_const(shape) || num_elements(shape).value() < least) return std::nullopt;
    const bool rows_first = product.attrs.i("transpose_b") == 1;
    if (!(num_elements(out) == shape[rows_first ? 0 : 1]) || graph_.type(product.inputs[0]).rank() < 2)
      return std::nullopt;
    Quantized q;
    q.transposed = !rows_first;
    return follow(product.inputs[1], q) ? std::optional(std::move(q)) : std::nullopt;
  }

 private:
  bool is_read_by_several(ValueId x) const {
    return std::count_if(users_[x].begin(), users_[x].end(),
                         [&](NodeId id) { return graph_.nodes[id].op == TensorOp::matmul; }) > 1;
  }

  // From the last step to the integers.
  bool follow(ValueId v, Quantized& q) const {
    for (int steps = 0; steps < kQuantizedSteps; ++steps) {
      if (graph_.is_constant(v)) {
        q.integers = v;
        std::reverse(q.steps.begin(), q.steps.end());
        return is_8_bit(graph_.type(v).dtype) && !q.steps.empty();
      }
      const Node* node = graph_.producer(v);
      if (node == nullptr) return false;
      const DType dtype = graph_.type(v).dtype;
      if (node->op == ScalarOp::cast) {
        if (!is_float(dtype)) return false;
        q.steps.push_back({ScalarOp::cast, dtype, {}});
      } else if (node->op == ScalarOp::sub || node->op == ScalarOp::mul) {
        if (!is_float(dtype) || !is_parameter(node->inputs[1], graph_.type(v).shape, q.transposed)) return false;
        q.steps.push_back({node->op.scalar(), dtype, node->inputs[1]});
      } else {
        return false;
      }
      v = node->inputs[0];
    }
    return false;
  }

  // Whether the value is made of constants and has one element, or one for each result.
  bool is_parameter(ValueId v, const Shape& matrix, bool transposed) const {
    const Shape& shape = graph_.type(v).shape;
    if (!is_const(shape) || !is_of_constants(v, kQuantizedSteps)) return false;
    if (num_elements(shape).is(1)) return true;
    const std::size_t from_end = transposed ? 1 : 2;  // the axis of results
    return shape.size() >= from_end && shape.size() <= 2 && shape[shape.size() - from_end] == matrix[2 - from_end] &&
           num_elements(shape) == matrix[2 - from_end];
  }
  bool is_of_constants(ValueId v, int steps) const {
    if (graph_.is_constant(v)) return true;
    const Node* node = graph_.producer(v);
    return node != nullptr && steps > 0 && !node->inputs.empty() &&
           std::all_of(node->inputs.begin(), node->inputs.end(),
                       [&](ValueId input) { return is_of_constants(input, steps - 1); });
  }

  const Graph& graph_;
  const ir::IdVector<ValueId, std::vector<NodeId>> users_;  // before the pass
};

class QuantizedProduct : Expansion {
 public:
  QuantizedProduct(Graph& graph, const Node& product) : Expansion(graph, product) {}

  ValueId build(const Quantized& q) {
    ValueId w = q.integers;
    if (q.transposed) w = node(TensorOp::transpose, {w}, {{"perm", std::vector<int64_t>{1, 0}}});
    for (const Quantized::Step& step : q.steps) {
      if (!step.parameter.valid()) {
        w = cast(w, step.dtype);
        continue;
      }
      const Dim count = num_elements(type(step.parameter).shape);
      w = node(step.op, {w, reshape(step.parameter, count.is(1) ? Shape{} : Shape{count, 1})});
    }
    const ValueId x = cast(reshape(in(0), {type(w).shape[1]}), DType::f32);
    const ValueId sum = reduce(TensorOp::reduce_sum, node(ScalarOp::mul, {x, cast(w, DType::f32)}), 1);
    return reshape(cast(sum, type(node_.output).dtype), type(node_.output).shape);
  }
};

}  // namespace

bool dequantizes_factor(const Graph& graph, const ir::IdVector<ValueId, std::vector<NodeId>>& users, const Node& node) {
  if (!(node.op == ScalarOp::cast) || !is_8_bit(graph.type(node.inputs[0]).dtype)) return false;
  ValueId v = node.output;
  const Shape shape = graph.type(v).shape;
  if (shape.size() != 2 || !is_const(shape) || num_elements(shape).value() < kMinElements) return false;
  for (int steps = 0; steps <= kQuantizedSteps; ++steps) {
    if (users[v].size() != 1) return false;
    const Node& user = graph.nodes[users[v][0]];
    if (user.op == TensorOp::reduce_sum) return user.attrs.ints("axes") == std::vector<int64_t>{1} && v != node.output;
    if (!user.op.is_scalar() || !(graph.type(user.output).shape == shape)) return false;
    v = user.output;
  }
  return false;
}

Result<bool> quantized_products(Graph& graph, const PassContext& context) {
  if (context.target.kind != TargetKind::cuda || !context.options.fuse || context.options.numerics == Numerics::exact)
    return false;
  const FindQuantized matrices(graph);
  std::map<NodeId, Quantized> found;
  for (const NodeId id : graph.order)
    if (auto q = matrices.find(graph.nodes[id])) found.emplace(id, *std::move(q));
  if (found.empty()) return false;
  Rewriter rewriter(graph);
  rewriter.walk([&](NodeId id) {
    const Node node = graph.nodes[id];
    if (const auto q = found.find(id); q != found.end())
      rewriter.replace(node.output, QuantizedProduct(graph, node).build(q->second));
  });
  return rewriter.changed();
}

}  // namespace fusec::compiler

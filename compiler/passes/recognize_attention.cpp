// SPDX-License-Identifier: Apache-2.0
// Optimize pass: makes one node of an attention that is written out, where a library of the target or a kernel computes
// it.
//
//   softmax(q k^T * scale + mask) v  ->  attention(q, k, v, mask) {scale}
//
// The scale may stand at q, at k, at both or behind the product, as multiplication or division. A mask is added, or
// chosen by a condition. Casts of the scores and reshapes of the axes in front of the matrices are seen through.
// A mask that is known to drop just the keys behind each query becomes an attribute: these scores are skipped.
// Heads of k and v that were repeated for the heads of q are taken as they were before. Nothing else may read the
// scores or the weights. Rows of weights that a condition makes 0 become rows of the result. Not in exact numerics:
// what computes the node rounds elsewhere.

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "compiler/partition/attention.h"
#include "compiler/passes/attention_operands.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"
#include "ir/ops/cast.h"

namespace fusec::compiler {
namespace {

constexpr int kMaxSteps = 24;  // from a softmax back to its product

class Recognizing {
 public:
  Recognizing(Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), rewriter_(graph), operands_(graph), uses_(use_counts(graph)) {}

  bool run() {
    rewriter_.walk([&](NodeId id) {
      const Node node = graph_.nodes[id];
      if (!(node.op == TensorOp::matmul)) return;
      if (const std::optional<ValueId> result = recognized(node)) rewriter_.replace(node.output, *result);
    });
    return rewriter_.changed();
  }

 private:
  const Node* producer(ValueId v) const { return graph_.producer(v); }
  const Shape& shape(ValueId v) const { return graph_.type(v).shape; }
  int uses(ValueId v) const { return v.index < uses_.size() ? uses_[v] : 0; }

  // The producer if it is this op.
  const Node* made_by(ValueId v, ir::Op op) const {
    const Node* node = producer(v);
    return node != nullptr && node->op == op ? node : nullptr;
  }

  std::optional<ValueId> recognized(const Node& values) {
    if (values.attrs.i("transpose_a") == 1) return std::nullopt;
    AttentionParts parts;
    const std::optional<ValueId> scores = softmax_input(behind_choice(values.inputs[0], parts));
    if (!scores || !trace(*scores, 2, kMaxSteps, parts)) return std::nullopt;
    parts.value = values.inputs[1];
    parts.transpose_value = values.attrs.i("transpose_b") == 1;
    parts.out = graph_.type(values.output);
    parts.origin = values.origin;
    return operands_.build(parts, [&](const ir::AttentionShape& s) {
      return is_computed_attention(context_.target, context_.options, s);
    });
  }

  // where(c, 0, weights) by rows: the weights. The result has zeros in these rows, too. Where there are no keys it is 0
  // whatever `c` is.
  ValueId behind_choice(ValueId v, AttentionParts& parts) {
    const Node* node = producer(v);
    if (node == nullptr || !(node->op == ScalarOp::where) || uses(v) != 1) return v;
    const ValueId condition = node->inputs[0], weights = node->inputs[2];
    if (number(node->inputs[1]) != 0 || !(shape(weights) == shape(v))) return v;
    if (operands_.is_zero(condition)) return weights;
    if (!shape(condition).empty() && !shape(condition).back().is(1)) return v;
    parts.zeroed = condition;
    return weights;
  }

  // The value behind casts between float types and reshapes that keep the matrices; each has no other user.
  ValueId behind_casts(ValueId v) const {
    for (int step = 0; step < kMaxSteps; ++step) {
      const Node* node = producer(v);
      if (node == nullptr || uses(v) != 1 || !(is_float_cast(*node) || keeps_matrices(*node))) break;
      v = node->inputs[0];
    }
    return v;
  }

  bool is_float_cast(const Node& node) const {
    return node.op == ScalarOp::cast && is_float(graph_.type(node.inputs[0]).dtype) &&
           is_float(graph_.type(node.output).dtype);
  }

  bool keeps_matrices(const Node& node) const {
    if (!(node.op == TensorOp::reshape)) return false;
    const Shape &from = shape(node.inputs[0]), &to = shape(node.output);
    const std::size_t m = from.size(), n = to.size();
    return m >= 2 && n >= 2 && from[m - 1] == to[n - 1] && from[m - 2] == to[n - 2];
  }

  // x of exp(x - max(x)) / sum(exp(x - max(x))) along the last axis, whose parts nothing else reads.
  std::optional<ValueId> softmax_input(ValueId weights) const {
    weights = behind_casts(weights);
    const Node* quotient = producer(weights);
    if (quotient == nullptr || uses(weights) != 1) return std::nullopt;
    ValueId numerator, sum;
    if (quotient->op == ScalarOp::div) {
      numerator = quotient->inputs[0], sum = quotient->inputs[1];
    } else if (quotient->op == ScalarOp::mul) {
      const bool first = made_by(quotient->inputs[0], ScalarOp::recip) != nullptr;
      const Node* inverse = made_by(quotient->inputs[first ? 0 : 1], ScalarOp::recip);
      if (inverse == nullptr || uses(inverse->output) != 1) return std::nullopt;
      numerator = quotient->inputs[first ? 1 : 0], sum = inverse->inputs[0];
    } else {
      return std::nullopt;
    }
    const Node* exp = made_by(numerator, ScalarOp::exp);
    if (exp == nullptr || uses(numerator) != 2 || !is_reduced(sum, TensorOp::reduce_sum, numerator))
      return std::nullopt;
    const Node* difference = made_by(exp->inputs[0], ScalarOp::sub);
    if (difference == nullptr || uses(difference->output) != 1) return std::nullopt;
    const ValueId x = difference->inputs[0];
    if (!is_reduced(difference->inputs[1], TensorOp::reduce_max, x)) return std::nullopt;
    return x;
  }

  // Whether v is the reduction of x over its last axis, with that axis kept.
  bool is_reduced(ValueId v, TensorOp op, ValueId x) const {
    const Node* kept = made_by(v, TensorOp::reshape);
    if (kept == nullptr || uses(v) != 1) return false;
    const Node* reduced = made_by(kept->inputs[0], op);
    if (reduced == nullptr || uses(reduced->output) != 1 || !(reduced->inputs[0] == x)) return false;
    Shape expected = shape(x);
    if (expected.empty()) return false;
    expected.back() = Dim(1);
    return reduced->attrs.ints("axes") == std::vector<int64_t>{static_cast<int64_t>(expected.size()) - 1} &&
           shape(v) == expected;
  }

  std::optional<double> number(ValueId v) const {
    const Tensor* data = graph_.constant(v);
    if (data == nullptr || data->num_elements() != 1 || !is_float(data->dtype())) return std::nullopt;
    return ir::load_double(data->dtype(), data->data());
  }

  // Follows the scores from the softmax back to their product. `readers`: how many nodes read v.
  bool trace(ValueId v, int readers, int steps, AttentionParts& parts) {
    const Node* node = producer(v);
    if (node == nullptr || uses(v) != readers || steps == 0) return false;
    if (node->op == TensorOp::matmul) {
      parts.query = node->inputs[0], parts.transpose_query = node->attrs.i("transpose_a") == 1;
      parts.key = node->inputs[1], parts.transpose_key = node->attrs.i("transpose_b") == 0;
      parts.scores = shape(v);
      return parts.scores.size() >= 2 && shape(parts.query).size() >= 2 && shape(parts.key).size() >= 2;
    }
    if (is_float_cast(*node) || keeps_matrices(*node)) return trace(node->inputs[0], 1, steps - 1, parts);
    if (node->op == ScalarOp::mul || node->op == ScalarOp::div) return trace_scale(*node, steps, parts);
    if (node->op == ScalarOp::add) {
      const AttentionParts saved = parts;
      if (trace_sum(*node, 0, steps, parts)) return true;
      parts = saved;
      return trace_sum(*node, 1, steps, parts);
    }
    return node->op == ScalarOp::where && trace_choice(*node, steps, parts);
  }

  bool trace_scale(const Node& node, int steps, AttentionParts& parts) {
    for (std::size_t side = 0; side < 2; ++side) {
      const std::optional<double> factor = number(node.inputs[1 - side]);
      if (!factor || !(shape(node.inputs[side]) == shape(node.output))) continue;
      if (node.op == ScalarOp::div && (side == 1 || *factor == 0)) continue;
      parts.scale *= node.op == ScalarOp::div ? 1 / *factor : *factor;
      return trace(node.inputs[side], 1, steps - 1, parts);
    }
    return false;
  }

  bool trace_sum(const Node& node, std::size_t side, int steps, AttentionParts& parts) {
    if (!(shape(node.inputs[side]) == shape(node.output))) return false;
    parts.masks.push_back({node.inputs[1 - side], {}, 0, parts.scale, shape(node.output)});
    return trace(node.inputs[side], 1, steps - 1, parts);
  }

  // where(c, scores, low) and where(c, low, scores) are a sum with a mask of 0 and `low`, if exp(low - max) is 0 beside
  // any other score of the row: if low is -infinity, or every row is known to keep a score.
  bool trace_choice(const Node& node, int steps, AttentionParts& parts) {
    for (std::size_t side = 1; side <= 2; ++side) {
      const std::optional<double> low = number(node.inputs[3 - side]);
      if (!low || !(shape(node.inputs[side]) == shape(node.output))) continue;
      const bool keeps = *low == -std::numeric_limits<double>::infinity() ||
                         (*low <= kLowestScore && (operands_.keeps_a_score(node.inputs[0], side == 1) ||
                                                   operands_.is_causal(node.inputs[0], side == 1, shape(node.output))));
      if (!keeps) return false;
      parts.masks.push_back({{}, node.inputs[0], *low, parts.scale, shape(node.output), side == 1});
      return trace(node.inputs[side], 1, steps - 1, parts);
    }
    return false;
  }

  Graph& graph_;
  const PassContext& context_;
  Rewriter rewriter_;
  AttentionOperands operands_;
  const ir::IdVector<ValueId, int> uses_;
};

}  // namespace

Result<bool> recognize_attention(Graph& graph, const PassContext& context) {
  if (!context.options.fuse) return false;
  return Recognizing(graph, context).run();
}

}  // namespace fusec::compiler

// SPDX-License-Identifier: Apache-2.0
// Optimize pass: folds a multiplication, division, addition or subtraction by one constant per channel into the weights
// and bias of the convolution before it. The convolution must have no other user. The pass does nothing in exact
// numerics.

#include <algorithm>
#include <vector>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"
#include "ir/ops/cast.h"
#include "ir/ops/element.h"
#include "ir/support/parallel.h"

namespace fusec::compiler {
namespace {

// The values of a constant per output channel of a conv in layout "first"; empty if the constant has another form.
std::vector<double> per_channel(const Graph& graph, ValueId value, const Shape& full) {
  const Tensor* data = graph.constant(value);
  if (data == nullptr || !full[1].is_const()) return {};
  const int64_t channels = full[1].value();
  const size_t rank = data->shape().size();
  for (size_t i = 0; i < rank; ++i) {
    const size_t axis = i + full.size() - rank;
    if (rank > full.size() || data->shape()[i] != (axis == 1 ? channels : 1)) {
      if (data->num_elements() != 1) return {};
    }
  }
  std::vector<double> result;
  const auto* bytes = static_cast<const char*>(data->data());
  const int64_t count = data->num_elements();
  if (count != 1 && count != channels) return {};
  for (int64_t c = 0; c < channels; ++c)
    result.push_back(
        ir::load_double(data->dtype(), bytes + (count == 1 ? 0 : c) * static_cast<int64_t>(size_of(data->dtype()))));
  return result;
}

// data[o, ...] * factor[o], computed in f64 and rounded once.
Result<Tensor> scaled(const Tensor& data, const std::vector<double>& factor) {
  constexpr int64_t kChunk = 256, kGrain = 1 << 14;  // elements at a time; elements that are worth a thread
  FUSEC_ASSIGN(Tensor result, Tensor::make(data.dtype(), data.shape()));
  const auto channels = static_cast<int64_t>(factor.size());
  const int64_t per = channels == 0 ? 0 : data.num_elements() / channels;
  const int64_t chunks = (per + kChunk - 1) / kChunk;  // of a channel
  void* const out = result.data();
  ir::parallel_for(0, channels * chunks, kGrain / kChunk, [&](int64_t begin, int64_t end) {
    double values[kChunk];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t channel = i / chunks, at = i % chunks * kChunk, first = channel * per + at,
                    count = std::min(kChunk, per - at);
      ir::load_elements(data.dtype(), data.data(), first, 1, count, values);
      for (int64_t k = 0; k < count; ++k) values[k] *= factor[static_cast<size_t>(channel)];
      ir::store_elements(data.dtype(), out, first, 1, count, values);
    }
  });
  return result;
}

Result<Tensor> make_vector(DType dtype, const std::vector<double>& values) {
  FUSEC_ASSIGN(Tensor result, Tensor::make(dtype, {static_cast<int64_t>(values.size())}));
  const auto size = size_of(dtype);
  for (size_t i = 0; i < values.size(); ++i)
    ir::store_double(dtype, static_cast<char*>(result.data()) + i * size, values[i]);
  return result;
}

std::vector<double> read_bias(const Graph& graph, const Node& conv, size_t channels) {
  std::vector<double> bias(channels, 0.0);
  if (conv.inputs.size() < 3) return bias;
  const Tensor* data = graph.constant(conv.inputs[2]);
  for (size_t i = 0; i < channels; ++i)
    bias[i] = ir::load_double(data->dtype(), static_cast<const char*>(data->data()) + i * size_of(data->dtype()));
  return bias;
}

// The producer of `value` if it is a conv of floats in layout "first" with constant weights and bias and a single use;
// else null.
const Node* foldable_conv(const Graph& graph, ValueId value, const ir::IdVector<ValueId, int>& uses) {
  const Node* conv = graph.producer(value);
  if (conv == nullptr || !(conv->op == TensorOp::conv) || uses[value] != 1 || conv->attrs.s("layout") != "first")
    return nullptr;
  if (!is_float(graph.type(value).dtype)) return nullptr;
  if (!graph.is_constant(conv->inputs[1]) || (conv->inputs.size() > 2 && !graph.is_constant(conv->inputs[2])))
    return nullptr;
  return conv;
}

// Emits the conv into which `node` is folded. Returns nullopt if `node` does not combine such a conv with one constant
// per channel.
Result<std::optional<ValueId>> fold(Graph& graph, const Node& node, const ir::IdVector<ValueId, int>& uses) {
  for (size_t side = 0; side < 2; ++side) {
    const Node* found = foldable_conv(graph, node.inputs[side], uses);
    if (found == nullptr) continue;
    const Node conv = *found;
    const bool swapped = side == 1;
    const auto values = per_channel(graph, node.inputs[1 - side], graph.type(conv.output).shape);
    if (values.empty() || (swapped && (node.op == ScalarOp::div || node.op == ScalarOp::sub))) continue;
    std::vector<double> scale(values.size(), 1.0), bias = read_bias(graph, conv, values.size());
    for (size_t c = 0; c < values.size(); ++c) {
      if (node.op == ScalarOp::mul) scale[c] = values[c];
      if (node.op == ScalarOp::div) scale[c] = 1.0 / values[c];
      if (node.op == ScalarOp::add) bias[c] += values[c];
      if (node.op == ScalarOp::sub) bias[c] -= values[c];
      if (node.op == ScalarOp::mul || node.op == ScalarOp::div) bias[c] *= scale[c];
    }
    const DType dtype = graph.type(conv.output).dtype;
    ValueId weights = conv.inputs[1];
    if (node.op == ScalarOp::mul || node.op == ScalarOp::div) {
      FUSEC_ASSIGN(Tensor folded, scaled(*graph.constant(weights), scale));
      weights = add_constant(graph, std::move(folded), conv.origin);
    }
    std::vector<ValueId> inputs{conv.inputs[0], weights};
    const bool has_bias = conv.inputs.size() > 2 || node.op == ScalarOp::add || node.op == ScalarOp::sub;
    if (has_bias) {
      FUSEC_ASSIGN(Tensor folded, make_vector(dtype, bias));
      inputs.push_back(add_constant(graph, std::move(folded), conv.origin));
    }
    return std::optional(add_node(graph, TensorOp::conv, inputs, conv.attrs, conv.origin));
  }
  return std::optional<ValueId>();
}

}  // namespace

Result<bool> fold_affine(Graph& graph, const PassContext& context) {
  if (context.options.numerics == Numerics::exact) return false;
  Rewriter rewriter(graph);
  auto uses = use_counts(graph);
  Status status;
  rewriter.walk([&](NodeId id) {
    const Node node = graph.nodes[id];
    if (!status.ok() || !node.op.is_scalar() || node.inputs.size() != 2) return;
    const ScalarOp op = node.op.scalar();
    if (op != ScalarOp::mul && op != ScalarOp::add && op != ScalarOp::sub && op != ScalarOp::div) return;
    auto folded = fold(graph, node, uses);
    if (!folded.ok()) {
      status = folded.status();
    } else if (folded->has_value()) {
      rewriter.replace(node.output, **folded);
      uses.resize(graph.values.size());
      uses[**folded] = uses[node.output];
    }
  });
  if (!status.ok()) return status;
  return rewriter.changed();
}

}  // namespace fusec::compiler

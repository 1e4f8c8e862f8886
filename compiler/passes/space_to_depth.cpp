// SPDX-License-Identifier: Apache-2.0
// Optimize pass: 16-bit convolutions of few channels, such as of an image with three, become convolutions of many.
// Libraries have fast kernels only for as many channels as the tensor cores take at once. A block of as many positions
// as the stride becomes one position whose channels are all elements of the block, and a filter then moves by one
// block. Channels that are still missing are zero.
//
//   y[o] = sum over k of w[k] * x[s*o + k - p]      with k - p = s*q + r, 0 <= r < s
//        = sum over q of w'[q, r] * x'[o + q, r]    x'[b, r] = x[s*b + r], w'[q, r] = w[s*q + r + p] or 0
//
// If the windows are patches, side by side and not overlapping, as at the beginning of vision transformers, one block
// is a whole window, and the convolution a matrix product. Zeros of w' meet elements beside a window: a NaN or an
// infinity there makes NaN, so exact mode leaves the pass out.

#include <algorithm>
#include <cstring>
#include <vector>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"
#include "ir/library/capabilities.h"
#include "ir/ops/element.h"

namespace fusec::compiler {
namespace {

// With fewer filters, as mobilenet_v3 has, cuDNN is faster on an image with channels of zeros than on blocks.
constexpr int64_t kManyFilters = 32;

// One spatial axis: `count` windows, blocks of `block` elements. A window begins `step` blocks behind the one before.
struct Axis {
  int64_t extent, kernel, pad, count, block, step;
  int64_t first() const { return floordiv(-pad, block); }             // block of the first element of window 0
  int64_t last() const { return floordiv(kernel - 1 - pad, block); }  // of the last one
  int64_t window() const { return last() - first() + 1; }
  int64_t end() const { return (count - 1) * step + last() + 1; }  // behind the last block of the last window
  // Blocks that the image has and windows read.
  int64_t blocks() const { return std::min((extent + block - 1) / block, end()); }
};

// Whether windows lie side by side.
bool is_patches(const Node& conv, const Shape& filter) {
  const auto &strides = conv.attrs.ints("strides"), &pads = conv.attrs.ints("pads");
  for (std::size_t i = 0; i < strides.size(); ++i)
    if (!filter[i + 2].is(strides[i]) || pads[i] != 0) return false;
  return true;
}

class Blocks : Expansion {
 public:
  Blocks(Graph& graph, const Node& conv) : Expansion(graph, conv), weights_(*graph.constant(conv.inputs[1])) {
    const Shape &x = type(in(0)).shape, &w = type(in(1)).shape, &y = type(conv.output).shape;
    channels_ = w[1].value();
    const bool has_blocks = w[0].value() >= kManyFilters || is_patches(conv, w);
    for (std::size_t i = 0; i + 2 < w.size(); ++i) {
      const int64_t stride = conv.attrs.ints("strides")[i], block = has_blocks ? stride : 1;
      axes_.push_back(
          {x[i + 1].value(), w[i + 2].value(), conv.attrs.ints("pads")[i], y[i + 1].value(), block, stride / block});
      positions_ *= block;
    }
    while (channels_ * positions_ % kTensorCoreElements != 0) ++channels_;
  }

  Result<ValueId> build() {
    FUSEC_ASSIGN(const ValueId filters, block_filters());
    std::vector<ValueId> inputs = node_.inputs;
    inputs[0] = block_image();
    inputs[1] = filters;
    ir::Attrs attrs = node_.attrs;
    std::vector<int64_t> pads(2 * axes_.size()), steps(axes_.size());
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      pads[i] = -axes_[i].first();
      pads[i + axes_.size()] = axes_[i].end() - axes_[i].blocks();
      steps[i] = axes_[i].step;
    }
    attrs.set("strides", steps);
    attrs.set("pads", pads);
    return node(TensorOp::conv, inputs, attrs);
  }

 private:
  const Node* producer(ValueId v) const {
    const NodeId id = graph_.values[v].producer;
    return id.valid() ? &graph_.nodes[id] : nullptr;
  }

  // The input with its channels in front, and before the cast that makes it 16-bit: one kernel then reads it once,
  // moves its elements and casts them.
  ValueId image() {
    ValueId v = in(0);
    std::vector<int64_t> first{0, static_cast<int64_t>(axes_.size()) + 1}, last{0};
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      first.push_back(static_cast<int64_t>(i) + 1);
      last.push_back(static_cast<int64_t>(i) + 2);
    }
    last.push_back(1);
    bool in_front = false;
    for (const Node* node = producer(v); node != nullptr; node = producer(v)) {
      if (!in_front && node->op == TensorOp::transpose && node->attrs.ints("perm") == last) {
        in_front = true;
      } else if (!(node->op == ScalarOp::cast) || type(node->inputs[0]).dtype != DType::f32) {
        break;
      }
      v = node->inputs[0];
    }
    return in_front ? v : node(TensorOp::transpose, {v}, {{"perm", first}});
  }

  // [n, c, extents...] -> [n, blocks..., channels x strides...]
  ValueId block_image() {
    ValueId v = image();
    Shape shape = type(v).shape;
    Shape starts(shape.size(), 0), sizes = shape, before(shape.size(), 0), after(shape.size(), 0);
    after[1] = Dim(channels_) - shape[1];
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const int64_t elements = axes_[i].blocks() * axes_[i].block;
      sizes[i + 2] = std::min(elements, axes_[i].extent);
      after[i + 2] = std::max<int64_t>(0, elements - axes_[i].extent);
    }
    if (!(sizes == shape)) {
      const std::vector<int64_t> steps(shape.size(), 1);
      v = node(TensorOp::slice, {v}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
    }
    if (!std::all_of(after.begin(), after.end(), [](const Dim& d) { return d.is(0); })) {
      const ir::Attrs ends{{"before", before}, {"after", after}, {"mode", std::string("constant")}};
      v = node(TensorOp::pad, {v, number(type(v).dtype, 0)}, ends);
    }
    Shape split{shape[0], channels_}, joined{shape[0]};
    std::vector<int64_t> order{0};
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      split.insert(split.end(), {axes_[i].blocks(), axes_[i].block});
      joined.push_back(axes_[i].blocks());
      order.push_back(static_cast<int64_t>(2 + 2 * i));
    }
    order.push_back(1);
    for (std::size_t i = 0; i < axes_.size(); ++i) order.push_back(static_cast<int64_t>(3 + 2 * i));
    joined.push_back(channels_ * positions_);
    v = node(TensorOp::transpose, {reshape(v, split)}, {{"perm", order}});
    return reshape(cast(v, weights_.dtype()), joined);
  }

  // [f, c, kernels...] -> [f, channels x strides..., windows...]
  Result<ValueId> block_filters() {
    Shape shape{weights_.shape()[0], channels_ * positions_};
    std::vector<int64_t> extents{weights_.shape()[0], channels_};
    for (const Axis& a : axes_) extents.push_back(a.block);
    for (const Axis& a : axes_) {
      extents.push_back(a.window());
      shape.push_back(a.window());
    }
    FUSEC_ASSIGN(Tensor out, Tensor::make(weights_.dtype(), extents));
    std::memset(out.data(), 0, out.bytes());
    const auto size = static_cast<int64_t>(size_of(weights_.dtype()));
    std::vector<int64_t> at(weights_.shape().size(), 0);  // in the old filters
    for (int64_t from = 0; from < weights_.num_elements(); ++from) {
      int64_t to = at[0] * channels_ + at[1];
      for (std::size_t i = 0; i < axes_.size(); ++i) {
        const int64_t k = at[i + 2] - axes_[i].pad;
        to = to * axes_[i].block + k - floordiv(k, axes_[i].block) * axes_[i].block;
      }
      for (std::size_t i = 0; i < axes_.size(); ++i)
        to = to * axes_[i].window() + floordiv(at[i + 2] - axes_[i].pad, axes_[i].block) - axes_[i].first();
      std::memcpy(out.as<char>() + to * size, weights_.as<char>() + from * size, static_cast<std::size_t>(size));
      for (std::size_t i = at.size(); i-- > 0 && ++at[i] == weights_.shape()[i];) at[i] = 0;
    }
    const ValueId filters = add_constant(graph_, std::move(out), node_.origin);
    return reshape(filters, shape);
  }

  const Tensor weights_;
  std::vector<Axis> axes_;
  int64_t channels_ = 0, positions_ = 1;  // of a block
};

bool has_few_channels(const Graph& graph, const Node& node) {
  if (!(node.op == TensorOp::conv) || node.attrs.s("layout") != "last" || node.attrs.i("groups") != 1) return false;
  const Tensor* weights = graph.constant(node.inputs[1]);
  if (weights == nullptr || !weights->is_contiguous() || !is_16_bit_float(weights->dtype())) return false;
  if (weights->num_elements() == 0 || weights->shape()[1] >= kTensorCoreElements) return false;
  const auto& dilations = node.attrs.ints("dilations");
  if (!std::all_of(dilations.begin(), dilations.end(), [](int64_t d) { return d == 1; })) return false;
  // A window of one position that moves by one is a product already, and zeros would take a copy of the image.
  const auto& strides = node.attrs.ints("strides");
  const bool moves = std::any_of(strides.begin(), strides.end(), [](int64_t s) { return s > 1; });
  if (!moves && weights->num_elements() == weights->shape()[0] * weights->shape()[1]) return false;
  const Shape &x = graph.type(node.inputs[0]).shape, &y = graph.type(node.output).shape;
  for (std::size_t i = 1; i + 1 < x.size(); ++i)
    if (!x[i].is_const() || !y[i].is_const() || x[i].value() == 0 || y[i].value() == 0) return false;
  return true;
}

bool is_slow(const PassContext& context) {
  return is_computed_by_library(context, [](const ir::LibraryCapabilities& library) {
    return ir::contains(library.ops, TensorOp::conv) && library.conv.is_slow_on_few_channels;
  });
}

}  // namespace

Result<bool> space_to_depth(Graph& graph, const PassContext& context) {
  if (!is_slow(context) || context.options.numerics == Numerics::exact) return false;
  Rewriter rewriter(graph);
  Status status;
  rewriter.walk([&](NodeId id) {
    const Node node = graph.nodes[id];
    if (!status.ok() || !has_few_channels(graph, node) || is_sum_of_patches(graph, node, context)) return;
    const Result<ValueId> y = Blocks(graph, node).build();
    if (y.ok()) {
      rewriter.replace(node.output, *y);
    } else {
      status = y.status();
    }
  });
  if (!status.ok()) return status;
  return rewriter.changed();
}

}  // namespace fusec::compiler

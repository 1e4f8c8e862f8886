// SPDX-License-Identifier: Apache-2.0
// Optimize pass: where every library of the target is slow at it, turns a conv with one filter per channel into the sum
// of its taps, each the input moved by an index map times one weight per channel. The sum is one generated kernel, with
// what follows fused. cuDNN's depthwise convolutions take a multiple of the time that their memory traffic needs.
//
//   y[n, o..., c] = bias[c] + sum over taps t of w[c, t] * x[n, o * stride + t * dilation - pad ..., c], 0 outside

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"
#include "ir/library/capabilities.h"
#include "ir/ops/element.h"

namespace fusec::compiler {
namespace {

class Unrolled {
 public:
  Unrolled(Graph& graph, const Node& conv)
      : graph_(graph),
        conv_(conv),
        out_(graph.type(conv.output).shape),
        weights_(*graph.constant(conv.inputs[1])),
        dtype_(weights_.dtype()),
        compute_(compute_type(dtype_)),
        zero_(zero(dtype_)) {}

  Result<ValueId> build() {
    const auto& kernel = weights_.shape();  // [channels, 1, spatial...]
    FUSEC_ASSIGN(by_tap_, by_tap());
    std::vector<int64_t> tap(kernel.size() - 2, 0);
    for (int64_t number = 0; number < taps(weights_); ++number) {
      FUSEC_TRY(add_tap(tap, number));
      for (std::size_t i = tap.size(); i-- > 0 && ++tap[i] == kernel[i + 2];) tap[i] = 0;
    }
    if (!sum_) sum_ = node(TensorOp::broadcast, {zero(compute_)}, {{"shape", out_}});  // every tap lies in the padding
    if (conv_.inputs.size() > 2) sum_ = scalar(ScalarOp::add, {*sum_, computed(conv_.inputs[2])});
    return dtype_ == compute_ ? *sum_ : node(ScalarOp::cast, {*sum_}, {{"to", dtype_}});
  }

  static int64_t taps(const Tensor& weights) {
    return weights.shape()[0] == 0 ? 0 : weights.num_elements() / weights.shape()[0];
  }

 private:
  ValueId node(ir::Op op, std::vector<ValueId> inputs, ir::Attrs attrs) {
    return add_node(graph_, op, std::move(inputs), std::move(attrs), conv_.origin);
  }
  ValueId scalar(ScalarOp op, std::vector<ValueId> inputs) { return node(op, std::move(inputs), {}); }
  ValueId computed(ValueId v) { return dtype_ == compute_ ? v : node(ScalarOp::cast, {v}, {{"to", compute_}}); }
  ValueId zero(DType dtype) { return add_constant(graph_, *Tensor::make(dtype, {}), conv_.origin); }

  // The weights of one tap after another, in the type of the sum: a thread reads each for few results, so a conversion
  // would take as long as the product.
  Result<ValueId> by_tap() {
    const int64_t channels = weights_.shape()[0], count = taps(weights_);
    FUSEC_ASSIGN(Tensor all, Tensor::make(compute_, {count * channels}));
    ir::visit_compute(compute_, [&]<class T>(T) {
      std::vector<T> row(static_cast<std::size_t>(channels));
      for (int64_t tap = 0; tap < count; ++tap) {
        ir::load_elements<T>(dtype_, weights_.data(), tap, count, channels, row.data());
        ir::store_elements<T>(compute_, all.data(), tap * channels, 1, channels, row.data());
      }
    });
    return add_constant(graph_, std::move(all), conv_.origin);
  }

  ValueId tap_weights(int64_t tap) {
    const int64_t channels = weights_.shape()[0];
    const ir::Attrs place{
        {"starts", Shape{tap * channels}}, {"sizes", Shape{channels}}, {"steps", std::vector<int64_t>{1}}};
    return node(TensorOp::slice, {by_tap_}, place);
  }

  Status add_tap(const std::vector<int64_t>& tap, int64_t number) {
    const std::optional<ValueId> moved = moved_by_tap(graph_, conv_, tap, zero_);
    if (!moved) return {};
    const ValueId x = computed(*moved), w = tap_weights(number);
    if (sum_ && compute_ == DType::f32) {
      sum_ = scalar(ScalarOp::fma, {x, w, *sum_});
    } else {
      const ValueId product = scalar(ScalarOp::mul, {x, w});
      sum_ = sum_ ? scalar(ScalarOp::add, {*sum_, product}) : product;
    }
    return {};
  }

  Graph& graph_;
  const Node conv_;
  const Shape out_;
  const Tensor weights_;
  const DType dtype_, compute_;
  const ValueId zero_;
  ValueId by_tap_;
  std::optional<ValueId> sum_;
};

bool is_depthwise(const Graph& graph, const Node& node) {
  if (!(node.op == TensorOp::conv) || node.attrs.s("layout") != "last") return false;
  const Tensor* weights = graph.constant(node.inputs[1]);
  if (weights == nullptr || !weights->is_contiguous() || !is_float(weights->dtype())) return false;
  const Shape &in = graph.type(node.inputs[0]).shape, &out = graph.type(node.output).shape;
  const int64_t groups = node.attrs.i("groups"), channels = weights->shape()[0];
  if (groups != channels || groups < 2 || weights->shape()[1] != 1 || !in.back().is(channels)) return false;
  for (std::size_t axis = 1; axis + 1 < in.size(); ++axis) {
    if (!in[axis].is_const() || !out[axis].is_const() || out[axis].value() == 0) return false;
  }
  return Unrolled::taps(*weights) <= kMaxDepthwiseTaps;
}

// Whether a library of the target computes a conv with one filter per channel as fast as its memory traffic allows.
bool is_fast_depthwise(const Target& target) {
  const std::vector<const ir::LibraryCapabilities*> libraries = ir::libraries_of(target);
  return std::any_of(libraries.begin(), libraries.end(), [](const ir::LibraryCapabilities* library) {
    const ir::ConvLimits& conv = library->conv;
    return ir::contains(library->ops, TensorOp::conv) && !conv.pointwise_only && !conv.is_slow_depthwise;
  });
}

}  // namespace

bool will_unroll(const Graph& graph, const Node& conv, const PassContext& context) {
  const auto& [disabled, last] = std::tie(context.options.disabled_passes, context.options.stop_after_passes);
  const bool runs = std::find(disabled.begin(), disabled.end(), "unroll_depthwise") == disabled.end() &&
                    (last < 0 || last >= passes_up_to("unroll_depthwise"));
  return runs && is_depthwise(graph, conv) && !is_fast_depthwise(context.target);
}

Result<bool> unroll_depthwise(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph);
  Status status;
  rewriter.walk([&](NodeId id) {
    const Node node = graph.nodes[id];
    if (!status.ok() || !will_unroll(graph, node, context)) return;
    Result<ValueId> sum = Unrolled(graph, node).build();
    if (sum.ok()) {
      rewriter.replace(node.output, *sum);
    } else {
      status = sum.status();
    }
  });
  if (!status.ok()) return status;
  return rewriter.changed();
}

}  // namespace fusec::compiler

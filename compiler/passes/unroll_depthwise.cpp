// SPDX-License-Identifier: Apache-2.0
// conv with one filter per channel -> the sum of its taps, each the input moved by an index map times one weight per
// channel: on a GPU one generated kernel, with what follows fused. cuDNN's depthwise convolutions take a multiple of the time
// that their bytes need.
//
//   y[n, o..., c] = bias[c] + sum over taps t of w[c, t] * x[n, o * stride + t * dilation - pad ..., c], 0 outside
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"

namespace fusec::compiler {

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::ScalarOp;
using ir::TensorOp;
using ir::ValueId;

namespace {

constexpr int64_t kMostTaps = 49;  // 7 x 7

// Where one tap of one spatial axis reads: results first .. first + count - 1 read start, start + step, ...; others padding.
struct TapRange {
  int64_t first = 0, count = 0, start = 0, step = 1;
};

TapRange tap_range(int64_t in, int64_t out, int64_t step, int64_t shift) {
  TapRange r;
  r.step = step;
  r.first = shift < 0 ? (-shift + step - 1) / step : 0;
  const int64_t last = in - 1 - shift < 0 ? -1 : std::min(out - 1, (in - 1 - shift) / step);
  r.count = std::max<int64_t>(0, last - r.first + 1);
  r.start = r.first * step + shift;
  return r;
}

class Unrolled {
 public:
  Unrolled(Graph& graph, const Node& conv)
      : graph_(graph), conv_(conv), x_(conv.inputs[0]), in_(graph.type(x_).shape), out_(graph.type(conv.output).shape),
        weights_(*graph.constant(conv.inputs[1])), dtype_(graph.type(x_).dtype), compute_(compute_type(dtype_)) {}

  Result<ValueId> build() {
    const auto& kernel = weights_.shape();  // [channels, 1, spatial...]
    std::vector<int64_t> tap(kernel.size() - 2, 0);
    for (int64_t number = 0; number < taps(weights_); ++number) {
      FUSEC_TRY(add_tap(tap, number));
      for (std::size_t i = tap.size(); i-- > 0 && ++tap[i] == kernel[i + 2];) tap[i] = 0;
    }
    if (!sum_) sum_ = node(TensorOp::broadcast, {zero(compute_)}, {{"shape", out_}});  // every tap lies in the padding
    if (conv_.inputs.size() > 2) sum_ = scalar(ScalarOp::add, {*sum_, computed(conv_.inputs[2])});
    return dtype_ == compute_ ? *sum_ : node(ScalarOp::cast, {*sum_}, {{"to", dtype_}});
  }

  static int64_t taps(const Tensor& weights) { return weights.shape()[0] == 0 ? 0 : weights.num_elements() / weights.shape()[0]; }

 private:
  ValueId node(ir::Op op, std::vector<ValueId> inputs, ir::Attrs attrs) {
    return add_node(graph_, op, std::move(inputs), std::move(attrs), conv_.origin);
  }
  ValueId scalar(ScalarOp op, std::vector<ValueId> inputs) { return node(op, std::move(inputs), {}); }
  ValueId computed(ValueId v) { return dtype_ == compute_ ? v : node(ScalarOp::cast, {v}, {{"to", compute_}}); }
  ValueId zero(DType dtype) { return add_constant(graph_, *Tensor::make(dtype, {}), conv_.origin); }

  // w[:, 0, tap], in the narrow type: the widest access decides how many channels a thread has
  Result<ValueId> weights_of(int64_t number) {
    const int64_t channels = weights_.shape()[0];
    FUSEC_ASSIGN(Tensor one, Tensor::make(dtype_, {channels}));
    const auto size = static_cast<int64_t>(size_of(dtype_));
    for (int64_t c = 0; c < channels; ++c) {
      std::memcpy(one.as<char>() + c * size, weights_.as<char>() + (c * taps(weights_) + number) * size, static_cast<std::size_t>(size));
    }
    return add_constant(graph_, std::move(one), conv_.origin);
  }

  Status add_tap(const std::vector<int64_t>& tap, int64_t number) {
    const auto &strides = conv_.attrs.ints("strides"), &pads = conv_.attrs.ints("pads"), &dilations = conv_.attrs.ints("dilations");
    Shape starts(in_.size(), 0), sizes = out_, before(in_.size(), 0), after(in_.size(), 0);
    std::vector<int64_t> steps(in_.size(), 1);
    bool padded = false;
    for (std::size_t i = 0; i < tap.size(); ++i) {
      const std::size_t axis = i + 1;
      const int64_t out = out_[axis].value();
      const TapRange r = tap_range(in_[axis].value(), out, strides[i], tap[i] * dilations[i] - pads[i]);
      if (r.count == 0) return {};  // all of it lies in the padding
      starts[axis] = r.start;
      sizes[axis] = r.count;
      steps[axis] = r.step;
      before[axis] = r.first;
      after[axis] = out - r.first - r.count;
      padded = padded || r.count < out;
    }
    ValueId moved = node(TensorOp::slice, {x_}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
    if (padded) {
      moved = node(TensorOp::pad, {moved, zero(dtype_)}, {{"before", before}, {"after", after}, {"mode", std::string("constant")}});
    }
    FUSEC_ASSIGN(const ValueId weight, weights_of(number));
    const ValueId product = scalar(ScalarOp::mul, {computed(moved), computed(weight)});
    sum_ = sum_ ? scalar(ScalarOp::add, {*sum_, product}) : product;
    return {};
  }

  Graph& graph_;
  const Node conv_;
  const ValueId x_;
  const Shape in_, out_;
  const Tensor weights_;
  const DType dtype_, compute_;
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
  return Unrolled::taps(*weights) <= kMostTaps;
}

}  // namespace

Result<bool> unroll_depthwise(Graph& graph, const PassContext& context) {
  if (context.target.kind != TargetKind::cuda) return false;
  Rewriter rewriter(graph);
  Status status;
  rewriter.walk([&](NodeId id) {
    const Node node = graph.nodes[id];
    if (!status.ok() || !is_depthwise(graph, node)) return;
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

// SPDX-License-Identifier: Apache-2.0
// Optimize pass: a convolution of stride 1 over an image with inserted zeros, as import makes of ConvTranspose, becomes
// a convolution of the image itself. It computes all s results that belong to one element as channels, and a reshape
// and a transpose then make positions of them. Of each axis, where z has s - 1 zeros behind each element of x:
//
//   y[o] = sum over k of w[k] * z[o - p + k d]     with o = s*q + r, 0 <= r < s, and p = s*f + c, 0 <= c < s
//        = sum over t of w'[r, t] * x[q - f + t]   with w'[r, t] = w[k] where k d = s*t + c - r, else 0
//
// These are the products of y that are not with inserted zeros, in the same order. w' has zeros of its own where w has
// fewer taps than s times the new window, or a dilation: an infinite element of x makes NaN there. Exact numerics has
// the pass only where w' has none.

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"
#include "ir/ops/cast.h"

namespace fusec::compiler {
namespace {

// One spatial axis.
struct Upsampled {
  Dim extent, result;  // of x and y
  int64_t stride = 1, kernel = 1, dilation = 1;
  int64_t shift = 0;   // p
  int64_t behind = 0;  // the results behind stride * extent of them; may be negative

  int64_t reach() const { return dilation * (kernel - 1) + 1; }
  int64_t first() const { return floordiv(shift, stride); }   // f
  int64_t phase() const { return shift - stride * first(); }  // c
  int64_t taps() const { return stride == 1 ? kernel : floordiv(reach() - 1 - phase() + stride - 1, stride) + 1; }
  int64_t step() const { return stride == 1 ? dilation : 1; }                    // between taps
  Dim blocks() const { return extent + floordiv(behind + stride - 1, stride); }  // values of q
  int64_t after() const { return floordiv(behind + stride - 1, stride) - first() + step() * (taps() - 1); }
};

struct Found {
  ValueId x;
  Shape image;  // [N, C, extents...]
  std::vector<Upsampled> axes;
};

// Matches [slice of] reshape(pad(reshape(x))) as the image of a conv.
class Matching {
 public:
  explicit Matching(const Graph& graph) : graph_(graph) {}

  std::optional<Found> match(const Node& conv) const {
    if (!(conv.op == TensorOp::conv) || conv.attrs.s("layout") != "first") return std::nullopt;
    const auto& strides = conv.attrs.ints("strides");
    const Shape &filter = shape(conv.inputs[1]), &result = shape(conv.output);
    if (!std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s == 1; })) return std::nullopt;
    const std::size_t n = strides.size();
    ValueId wide = conv.inputs[0];
    std::vector<int64_t> low(n), high(n);
    if (const Node* crop = graph_.producer(wide); crop != nullptr && crop->op == TensorOp::slice) {
      if (!cropped(*crop, low, high)) return std::nullopt;
      wide = crop->inputs[0];
    }
    std::optional<Found> found = inserted(wide);
    if (!found || found->axes.size() != n) return std::nullopt;
    for (std::size_t i = 0; i < n; ++i) {
      Upsampled& axis = found->axes[i];
      const int64_t before = conv.attrs.ints("pads")[i], after = conv.attrs.ints("pads")[i + n];
      if (!filter[i + 2].is_const() || (low[i] > 0 && before > 0) || (high[i] > 0 && after > 0)) return std::nullopt;
      axis.kernel = filter[i + 2].value();
      axis.dilation = conv.attrs.ints("dilations")[i];
      axis.shift = before - low[i];
      axis.result = result[i + 2];
      const Dim behind = axis.result - axis.extent * axis.stride;
      if (!behind.is_const()) return std::nullopt;
      axis.behind = behind.value();
    }
    return found;
  }

 private:
  const Shape& shape(ValueId v) const { return graph_.type(v).shape; }

  // What a slice of spatial axes takes off both ends.
  bool cropped(const Node& slice, std::vector<int64_t>& low, std::vector<int64_t>& high) const {
    const Shape &from = shape(slice.inputs[0]), &starts = slice.attrs.dims("starts"), &to = shape(slice.output);
    const auto& steps = slice.attrs.ints("steps");
    if (from.size() != low.size() + 2 || !(from[0] == to[0]) || !(from[1] == to[1])) return false;
    for (std::size_t i = 0; i < low.size(); ++i) {
      const Dim end = from[i + 2] - starts[i + 2] - to[i + 2];
      if (steps[i + 2] != 1 || !starts[i + 2].is_const() || !end.is_const()) return false;
      low[i] = starts[i + 2].value(), high[i] = end.value();
    }
    return true;
  }

  // [N, C, H, 1, W, 1] -> [N, C, H, s, W, s] -> [N, C, H*s, W*s], by zeros
  std::optional<Found> inserted(ValueId wide) const {
    const Node* merge = graph_.producer(wide);
    if (merge == nullptr || !(merge->op == TensorOp::reshape)) return std::nullopt;
    const Node* pad = graph_.producer(merge->inputs[0]);
    if (pad == nullptr || !(pad->op == TensorOp::pad) || pad->attrs.s("mode") != "constant") return std::nullopt;
    const Tensor* const value = pad->inputs.size() > 1 ? graph_.constant(pad->inputs[1]) : nullptr;
    if (value == nullptr || value->num_elements() != 1 || ir::load_double(value->dtype(), value->data()) != 0)
      return std::nullopt;
    const Shape &split = shape(pad->inputs[0]), &merged = shape(wide);
    const Shape &before = pad->attrs.dims("before"), &after = pad->attrs.dims("after");
    if (merged.size() < 3 || split.size() != 2 * merged.size() - 2) return std::nullopt;
    Found found{pad->inputs[0], {split[0], split[1]}, {}};
    if (!(merged[0] == split[0]) || !(merged[1] == split[1])) return std::nullopt;
    for (std::size_t i = 0; i < split.size(); ++i) {
      const bool is_gap = i >= 3 && i % 2 == 1;
      if (!before[i].is(0) || !after[i].is_const() || (!is_gap && !after[i].is(0))) return std::nullopt;
      if (!is_gap) continue;
      Upsampled axis;
      axis.extent = split[i - 1];
      axis.stride = after[i].value() + 1;
      if (!split[i].is(1) || axis.stride < 1 || !(merged[(i + 1) / 2] == axis.extent * axis.stride))
        return std::nullopt;
      found.image.push_back(axis.extent);
      found.axes.push_back(axis);
    }
    return found;
  }

  const Graph& graph_;
};

class Subpixels : Expansion {
 public:
  Subpixels(Graph& graph, const Node& conv, Found found)
      : Expansion(graph, conv), found_(std::move(found)), axes_(found_.axes), groups_(conv.attrs.i("groups")) {}

  // Whether no tap of the filter becomes a zero that was not there.
  bool is_exact() const {
    return std::all_of(axes_.begin(), axes_.end(), [](const Upsampled& a) {
      return a.stride == 1 || (a.dilation == 1 && a.stride * a.taps() == a.kernel);
    });
  }

  // Whether it multiplies less, and reads and writes what there is.
  bool gains() const {
    int64_t taps = 1, before = 1;
    for (const Upsampled& a : axes_) {
      taps *= a.taps(), before *= a.kernel;
      if (a.stride > 1 && a.dilation > kMaxDilation) return false;
      for (const int64_t crop : {-a.first(), -a.after()})
        if (crop > 0 && (!a.extent.is_const() || a.extent.value() <= crop)) return false;
      const Dim rest = a.extent - std::max<int64_t>(-a.first(), 0) - std::max<int64_t>(-a.after(), 0);
      if ((rest.is_const() && rest.value() < 1) || (a.result.is_const() && a.result.value() < 1)) return false;
    }
    // A library is slow at several filters of one channel each, where generated code computes one of each channel.
    return taps < before && (groups_ == 1 || !type(in(1)).shape[1].is(1));
  }

  ValueId build() {
    ValueId x = reshape(found_.x, found_.image);
    std::vector<int64_t> pads, ends, steps;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const Upsampled& a = axes_[i];
      x = cropped(x, i + 2, std::max<int64_t>(-a.first(), 0), std::max<int64_t>(-a.after(), 0));
      pads.push_back(std::max<int64_t>(a.first(), 0));
      ends.push_back(std::max<int64_t>(a.after(), 0));
      steps.push_back(a.step());
    }
    pads.insert(pads.end(), ends.begin(), ends.end());
    std::vector<ValueId> inputs{x, filter()};
    if (node_.inputs.size() > 2) inputs.push_back(bias());
    ir::Attrs attrs = node_.attrs;
    attrs.set("pads", pads);
    attrs.set("dilations", steps);
    return shuffled(node(TensorOp::conv, inputs, attrs));
  }

 private:
  static constexpr int64_t kMaxDilation = 64;  // the zeros that fill a filter are stored

  ValueId cropped(ValueId v, std::size_t axis, int64_t low, int64_t high) {
    if (low == 0 && high == 0) return v;
    const Shape from = type(v).shape;
    Shape starts(from.size(), Dim(0)), sizes = from;
    starts[axis] = Dim(low);
    sizes[axis] = from[axis] - low - high;
    const std::vector<int64_t> ones(from.size(), 1);
    return node(TensorOp::slice, {v}, {{"starts", starts}, {"sizes", sizes}, {"steps", ones}});
  }

  ValueId padded(ValueId v, std::size_t axis, int64_t low, int64_t high) {
    if (low == 0 && high == 0) return v;
    Shape before(type(v).shape.size(), Dim(0)), after = before;
    before[axis] = Dim(low), after[axis] = Dim(high);
    return node(TensorOp::pad, {v, number(type(v).dtype, 0)},
                {{"before", before}, {"after", after}, {"mode", std::string("constant")}});
  }

  ValueId reversed(ValueId v, std::size_t axis) {
    const Shape sizes = type(v).shape;
    if (sizes[axis].is(1)) return v;
    Shape starts(sizes.size(), Dim(0));
    starts[axis] = sizes[axis] - 1;
    std::vector<int64_t> steps(sizes.size(), 1);
    steps[axis] = -1;
    return node(TensorOp::slice, {v}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
  }

  Dim filters_of_group() const { return *type(in(1)).shape[0].exact_div(groups_); }
  int64_t phases() const {
    int64_t all = 1;
    for (const Upsampled& a : axes_) all *= a.stride;
    return all;
  }

  // [groups, phases..., filters of a group, channels, taps...], with the leading axes merged
  ValueId filter() {
    const std::size_t n = axes_.size();
    ValueId w = in(1);
    const Shape channels = type(w).shape;
    Shape split{Dim(groups_), filters_of_group(), channels[1]};
    for (std::size_t i = 0; i < n; ++i) {
      const Upsampled& a = axes_[i];
      if (a.stride > 1) {
        w = spread(w, i + 2, a.dilation);
        const int64_t front = a.stride - 1 - a.phase();
        w = padded(w, i + 2, front, a.stride * a.taps() - a.reach() - front);
      }
      split.insert(split.end(), {Dim(a.taps()), Dim(a.stride)});
    }
    w = reshape(w, split);
    std::vector<int64_t> perm{0};
    for (std::size_t i = 0; i < n; ++i) {
      w = reversed(w, 4 + 2 * i);
      perm.push_back(static_cast<int64_t>(4 + 2 * i));
    }
    perm.insert(perm.end(), {1, 2});
    Shape merged{channels[0] * phases(), channels[1]};
    for (std::size_t i = 0; i < n; ++i) {
      perm.push_back(static_cast<int64_t>(3 + 2 * i));
      merged.push_back(Dim(axes_[i].taps()));
    }
    return reshape(node(TensorOp::transpose, {w}, {{"perm", perm}}), merged);
  }

  // Zeros between the taps in the place of a dilation.
  ValueId spread(ValueId w, std::size_t axis, int64_t dilation) {
    if (dilation == 1) return w;
    const Shape from = type(w).shape;
    const ValueId wide = padded(reshape(w, inserted(from, axis + 1, 1)), axis + 1, 0, dilation - 1);
    return cropped(reshape(wide, with(from, axis, from[axis] * dilation)), axis, 0, dilation - 1);
  }

  ValueId bias() {
    const Dim filters = filters_of_group();
    const ValueId split = reshape(in(2), {Dim(groups_), Dim(1), filters});
    const ValueId all = node(TensorOp::broadcast, {split}, {{"shape", Shape{Dim(groups_), Dim(phases()), filters}}});
    return reshape(all, {filters * groups_ * phases()});
  }

  // [n, groups, phases..., filters, q...] -> [n, groups * filters, q * phases...]
  ValueId shuffled(ValueId y) {
    const std::size_t n = axes_.size();
    const Shape from = type(y).shape;
    Shape split{from[0], Dim(groups_)}, merged{from[0], filters_of_group() * groups_};
    std::vector<int64_t> perm{0, 1, static_cast<int64_t>(n) + 2};
    for (std::size_t i = 0; i < n; ++i) {
      split.push_back(Dim(axes_[i].stride));
      merged.push_back(axes_[i].blocks() * axes_[i].stride);
      perm.insert(perm.end(), {static_cast<int64_t>(n + 3 + i), static_cast<int64_t>(2 + i)});
    }
    split.push_back(filters_of_group());
    split.insert(split.end(), from.begin() + 2, from.end());
    ValueId v = reshape(node(TensorOp::transpose, {reshape(y, split)}, {{"perm", perm}}), merged);
    const Shape to = type(node_.output).shape;
    if (to == merged) return v;
    const Shape starts(to.size(), Dim(0));
    const std::vector<int64_t> ones(to.size(), 1);
    return node(TensorOp::slice, {v}, {{"starts", starts}, {"sizes", to}, {"steps", ones}});
  }

  const Found found_;
  const std::vector<Upsampled>& axes_;
  const int64_t groups_;
};

}  // namespace

Result<bool> subpixel_convolutions(Graph& graph, const PassContext& context) {
  const bool is_exact = context.options.numerics == Numerics::exact;
  Rewriter rewriter(graph);
  rewriter.walk([&](NodeId id) {
    const Node node = graph.nodes[id];
    std::optional<Found> found = Matching(graph).match(node);
    if (!found) return;
    Subpixels subpixels(graph, node, *std::move(found));
    if (subpixels.gains() && (!is_exact || subpixels.is_exact())) rewriter.replace(node.output, subpixels.build());
  });
  return rewriter.changed();
}

}  // namespace fusec::compiler

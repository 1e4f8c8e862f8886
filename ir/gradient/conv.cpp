// SPDX-License-Identifier: Apache-2.0
// The gradients of convolutions, which are convolutions. Channels come first here; other layouts are transposed.
//
// With G groups, s the stride, d the dilation and p the padding in front, along each spatial axis:
//   y[n, o, j]  = sum over c, t of x[n, c, s*j + d*t - p] * w[o, c, t]
//   dx[n, c, i] = sum over o, t of dy'[n, o, i + p - d*t] * w[o, c, t],  dy' is dy with s - 1 zeros behind each element
//   dw[o, c, t] = sum over n, j of x[n, c, s*j + d*t - p] * dy[n, o, j]
// The second is a convolution of dy' with the flipped filter. In the third batch and channels change places, as do
// strides and dilations.

#include "ir/gradient/rules.h"

namespace fusec::ir::gradient {
namespace {

class Convolution {
 public:
  explicit Convolution(Call& c)
      : c_(c),
        strides_(c.attrs().ints("strides")),
        pads_(c.attrs().ints("pads")),
        dilations_(c.attrs().ints("dilations")),
        groups_(c.attrs().i("groups")),
        is_last_(c.attrs().s("layout") == "last"),
        x_(channels_first(c.in(0))),
        dy_(channels_first(c.dy)) {}

  ValueId of_input() {
    ValueId v = c_.with_zeros(dy_, padded_to_rank(strides_, 1));
    const Shape &input = c_.shape(x_), &window = c_.shape(c_.in(1));
    Shape starts(rank(), 0), sizes = c_.shape(v);
    for (std::size_t i = 0; i < axes(); ++i) {
      const Dim reach = dilations_[i] * (window[2 + i] - 1);
      starts[2 + i] = pads_[i] - reach;
      sizes[2 + i] = input[2 + i] + reach;
    }
    v = convolve(c_.part(v, starts, sizes), flipped_filter(), ones(), dilations_, std::vector<int64_t>(2 * axes(), 0));
    return channels_back(v);
  }

  ValueId of_filter() {
    const ValueId v = convolve(batch_as_channels(), c_.transpose(dy_, swapped(rank())), dilations_, strides_, pads_);
    const Shape& window = c_.shape(c_.in(1));
    Shape sizes{window[1], window[0]};
    sizes.insert(sizes.end(), window.begin() + 2, window.end());
    return c_.transpose(c_.part(v, Shape(rank(), 0), sizes), swapped(rank()));
  }

  ValueId of_bias() {
    std::vector<int64_t> axes = all_axes(rank());
    axes.erase(axes.begin() + 1);
    return c_.reduce(TensorOp::reduce_sum, dy_, std::move(axes));
  }

 private:
  std::size_t rank() const { return c_.shape(c_.in(1)).size(); }
  std::size_t axes() const { return rank() - 2; }
  std::vector<int64_t> ones() const { return std::vector<int64_t>(axes(), 1); }

  static std::vector<int64_t> swapped(std::size_t rank) {
    std::vector<int64_t> perm = all_axes(rank);
    std::swap(perm[0], perm[1]);
    return perm;
  }

  static std::vector<int64_t> padded_to_rank(std::vector<int64_t> steps, int64_t value) {
    steps.insert(steps.begin(), 2, value);
    return steps;
  }

  ValueId channels_first(ValueId v) {
    if (!is_last_) return v;
    std::vector<int64_t> perm = all_axes(rank());
    perm.insert(perm.begin() + 1, perm.back());
    perm.pop_back();
    return c_.transpose(v, std::move(perm));
  }

  ValueId channels_back(ValueId v) {
    if (!is_last_) return v;
    std::vector<int64_t> perm = all_axes(rank());
    perm.push_back(perm[1]);
    perm.erase(perm.begin() + 1);
    return c_.transpose(v, std::move(perm));
  }

  ValueId convolve(ValueId x, ValueId filter, const std::vector<int64_t>& strides,
                   const std::vector<int64_t>& dilations, const std::vector<int64_t>& pads) {
    return c_.node(TensorOp::conv, {x, filter},
                   {{"strides", strides},
                    {"pads", pads},
                    {"dilations", dilations},
                    {"groups", groups_},
                    {"layout", std::string("first")}});
  }

  // [G * O, C, k...] -> [G, O, C, k...] -> [G, C, O, k...] -> [G * C, O, k...], with the spatial axes reversed
  ValueId flipped_filter() {
    const Shape from = c_.shape(c_.in(1));
    const Dim each = *from[0].exact_div(groups_);
    Shape split{groups_, each}, joined{from[1] * groups_, each};
    split.insert(split.end(), from.begin() + 1, from.end());
    joined.insert(joined.end(), from.begin() + 2, from.end());
    std::vector<int64_t> perm = all_axes(split.size());
    std::swap(perm[1], perm[2]);
    ValueId v = c_.reshape(c_.transpose(c_.reshape(c_.in(1), std::move(split)), std::move(perm)), std::move(joined));
    for (std::size_t i = 2; i < from.size(); ++i) v = c_.flip(v, i);
    return v;
  }

  // [N, G * C, i...] -> [N, G, C, i...] -> [C, G, N, i...] -> [C, G * N, i...]
  ValueId batch_as_channels() {
    const Shape from = c_.shape(x_);
    const Dim each = c_.shape(c_.in(1))[1];
    Shape split{from[0], groups_, each}, joined{each, from[0] * groups_};
    split.insert(split.end(), from.begin() + 2, from.end());
    joined.insert(joined.end(), from.begin() + 2, from.end());
    std::vector<int64_t> perm = all_axes(split.size());
    std::swap(perm[0], perm[2]);
    return c_.reshape(c_.transpose(c_.reshape(x_, std::move(split)), std::move(perm)), std::move(joined));
  }

  Call& c_;
  const std::vector<int64_t> strides_, pads_, dilations_;
  const int64_t groups_;
  const bool is_last_;
  const ValueId x_, dy_;
};

}  // namespace

Status conv_rule(Call& c) {
  Convolution conv(c);
  if (c.wants(0)) c.give(0, conv.of_input());
  if (c.wants(1)) c.give(1, conv.of_filter());
  if (c.operands() > 2 && c.wants(2)) c.give(2, conv.of_bias());
  return {};
}

}  // namespace fusec::ir::gradient

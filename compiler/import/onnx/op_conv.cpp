// SPDX-License-Identifier: Apache-2.0
// Imports Conv and ConvTranspose. ConvTranspose becomes a convolution of stride 1 on an input with inserted zeros, so
// that later stages need no op of its own for it.

#include <fmt/format.h>

#include <algorithm>

#include "compiler/import/onnx/build_ops.h"
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/ops.h"

namespace fusec::importer {

void import_conv(NodeContext& c) {
  Val x = c.in(0), filter = c.in(1);
  Shape spatial = spatial_extents(c.b, x);
  Window w = read_window(c, spatial, filter_extents(c, x, filter));
  c.out(conv(c.b, x, filter, c.has(2) ? c.in(2) : Val(), w, c.i("group", 1)));
}

namespace {

// The window and output padding of a ConvTranspose node.
struct Transposed {
  Window w;
  std::vector<int64_t> output_padding;
};

// stride * (extent - 1) + output_padding + reach - result
int64_t total_padding(const Transposed& t, std::size_t i, const Dim& extent, const Dim& result) {
  Dim total = (extent - 1) * t.w.strides[i] + t.output_padding[i] + t.w.dilated_extent(i) - result;
  if (!total.is_const()) fail_unsupported(fmt::format("output_shape {} on an extent {}", result.str(), extent.str()));
  if (std::abs(total.value()) >= int64_t{1} << 31)
    fail_unsupported(fmt::format("an output_shape {} that takes a padding of {}", result.str(), total.value()));
  return total.value();
}

Transposed read_transposed(const NodeContext& c, const Shape& spatial, std::vector<int64_t> kernel) {
  std::size_t n = spatial.size();
  Transposed t{read_window(c, std::move(kernel)), c.ints("output_padding").value_or(std::vector<int64_t>(n, 0))};
  check_count(t.output_padding, n, 0, "output_padding");
  std::string mode = read_auto_pad(c);
  std::optional<std::vector<int64_t>> shape = c.ints("output_shape");
  if (shape) check_count(*shape, n, 0, "output_shape");
  for (std::size_t i = 0; i < n; ++i) {
    if (!shape && mode == "NOTSET") continue;
    Dim result = shape ? Dim((*shape)[i]) : spatial[i] * t.w.strides[i];
    bool is_valid = !shape && mode == "VALID";
    int64_t total = is_valid ? 0 : total_padding(t, i, spatial[i], result);
    split_padding(t.w, i, std::max<int64_t>(total, 0), mode != "SAME_UPPER");
    // If output_shape is larger than the range of the sums, zeros are added at the end.
    t.w.pads[i + n] += std::min<int64_t>(total, 0);
  }
  return t;
}

// [N, C, H, W] -> [N, C, H, 1, W, 1] -> [N, C, H, s, W, s] -> [N, C, H*s, W*s]: stride - 1 zeros after each element.
Val insert_zeros(Builder& b, Val x, const std::vector<int64_t>& strides) {
  if (std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s == 1; })) return x;
  const Shape shape = b.shape(x);
  Shape split = {shape[0], shape[1]}, result = split, before(2 + 2 * strides.size(), Dim(0)), after = before;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    split.insert(split.end(), {shape[2 + i], Dim(1)});
    after[3 + 2 * i] = strides[i] - 1;
    result.push_back(shape[2 + i] * strides[i]);
  }
  Val wide = b.emit(TensorOp::pad, {reshape(b, x, split), b.scalar(b.dtype(x), 0)},
                    {{"before", before}, {"after", after}, {"mode", std::string("constant")}});
  return reshape(b, wide, result);
}

// Slices off what negative pads remove, and sets these pads to 0.
Val crop(Builder& b, Val x, Window& w) {
  for (std::size_t i = 0; i < w.axes(); ++i) {
    int64_t &begin = w.pads[i], &end = w.pads[i + w.axes()];
    int64_t low = std::max<int64_t>(-begin, 0), high = std::max<int64_t>(-end, 0);
    begin = std::max<int64_t>(begin, 0), end = std::max<int64_t>(end, 0);
    Dim left = b.shape(x)[2 + i] - low - high;
    if (left.is_const() && left.value() < 0)
      fail_invalid(fmt::format("the pads of spatial axis {} take more than there is", i));
    x = slice(b, x, static_cast<int64_t>(2 + i), low, left);
  }
  return x;
}

// [groups * C, M, k...] -> [groups * M, C, k...], with the spatial axes reversed.
Val flip_filter(Builder& b, Val filter, int64_t groups) {
  const Shape shape = b.shape(filter);
  std::optional<Dim> channels = groups < 1 ? std::nullopt : shape[0].exact_div(groups);
  if (!channels) fail_groups(shape[0], groups);
  Shape split = {groups, *channels}, result = {shape[1] * groups, *channels}, starts(2, Dim(0));
  split.insert(split.end(), shape.begin() + 1, shape.end());
  std::vector<int64_t> perm = range_axes(0, static_cast<int64_t>(split.size())), steps(shape.size(), -1);
  std::swap(perm[1], perm[2]);
  steps[0] = steps[1] = 1;
  for (std::size_t i = 2; i < shape.size(); ++i) {
    result.push_back(shape[i]);
    starts.push_back(shape[i] - 1);
    if (shape[i].is(1)) steps[i] = 1;
  }
  Val y = reshape(b, transpose(b, reshape(b, filter, split), perm), result);
  if (std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s == 1; })) return y;
  return b.emit(TensorOp::slice, {y}, {{"starts", starts}, {"sizes", result}, {"steps", steps}});
}

}  // namespace

// Computes the convolution of stride 1 of the flipped filter with x, after stride - 1 zeros are inserted after each
// element of x. The pads are reach - 1 - begin and reach - 1 - end + output_padding, the latter less the zeros after
// the last element.
void import_conv_transpose(NodeContext& c) {
  Builder& b = c.b;
  Val x = c.in(0), filter = c.in(1);
  Shape spatial = spatial_extents(b, x);
  Transposed t = read_transposed(c, spatial, filter_extents(c, x, filter));
  Window w = t.w;
  for (std::size_t i = 0; i < w.axes(); ++i) {
    w.pads[i] = w.dilated_extent(i) - 1 - t.w.pads[i];
    w.pads[i + w.axes()] = w.dilated_extent(i) - w.strides[i] - t.w.pads[i + w.axes()] + t.output_padding[i];
  }
  x = crop(b, insert_zeros(b, x, w.strides), w);
  w.strides.assign(w.axes(), 1);
  int64_t groups = c.i("group", 1);
  c.out(conv(b, x, flip_filter(b, filter, groups), c.has(2) ? c.in(2) : Val(), w, groups));
}

}  // namespace fusec::importer

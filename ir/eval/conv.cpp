// SPDX-License-Identifier: Apache-2.0
// Evaluates convolutions for the graph evaluator, in f64 or wrapping integers, as products of filter rows with packed
// input panels.

#include <algorithm>

#include "ir/eval/op_call.h"
#include "ir/support/parallel.h"

namespace fusec::ir {
namespace {

struct ConvShape {
  int64_t groups, group_inputs, group_outputs, taps, positions;
  int64_t depth() const { return group_inputs * taps; }
};

// Input offsets [taps][kPanelColumns] of the output positions first, first + 1, ...; -1 in the padding.
std::vector<int64_t> panel_offsets(const Window& window, const ImageLayout& in, const Extents& out_spatial,
                                   int64_t first, int64_t width) {
  const int64_t taps = product(window.kernel);
  std::vector<int64_t> offsets(static_cast<std::size_t>(taps * kPanelColumns), -1);
  for (int64_t j = 0; j < width; ++j) {
    const Extents output = unravel(first + j, out_spatial);
    for (int64_t tap = 0; tap < taps; ++tap) {
      offsets[static_cast<std::size_t>(tap * kPanelColumns + j)] =
          window.tap(output, unravel(tap, window.kernel), in).offset;
    }
  }
  return offsets;
}

// Fills the panel [input channel, tap][column]; padding is zero.
template <class T>
void fill_panel(const T* image, int64_t channels, int64_t channel_stride, const std::vector<int64_t>& offsets,
                T* panel) {
  for (int64_t c = 0; c < channels; ++c) {
    for (const int64_t offset : offsets) *panel++ = offset < 0 ? T(0) : image[c * channel_stride + offset];
  }
}

template <class T>
void convolve(const OpCall& call, Tensor& out) {
  const std::string& layout = call.attrs.s("layout");
  const Tensor& filter = call.operand(1);
  const ImageLayout in(call.operand(0), layout), image(out, layout);
  const Window window({filter.shape().begin() + 2, filter.shape().end()}, call.attrs);
  const int64_t groups = call.attrs.i("groups");
  const ConvShape conv{groups, filter.shape()[1], image.channels / groups, product(window.kernel),
                       product(image.spatial)};
  const ElementsAs<T> x(call.operand(0)), w(filter);
  std::vector<T> bias(static_cast<std::size_t>(image.channels), T(0));
  if (call.operands.size() == 3) {
    load_elements(call.operand(2).dtype(), call.operand(2).data(), 0, 1, image.channels, bias.data());
  }
  // The spatial axes of the result are adjacent, so that its positions are equally spaced.
  const int64_t step = image.spatial_strides.back();
  const int64_t panels = (conv.positions + kPanelColumns - 1) / kPanelColumns;
  parallel_for(call.options.threads, panels, 1, [&](int64_t begin, int64_t end) {
    std::vector<T> panel(static_cast<std::size_t>(conv.depth() * kPanelColumns));
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * kPanelColumns, width = std::min(kPanelColumns, conv.positions - first);
      const std::vector<int64_t> offsets = panel_offsets(window, in, image.spatial, first, width);
      for (int64_t task = 0; task < in.batch * groups; ++task) {
        const int64_t n = task / groups, group = task % groups, first_output = group * conv.group_outputs;
        const T* source = x.data() + n * in.batch_stride + group * conv.group_inputs * in.channel_stride;
        fill_panel(source, conv.group_inputs, in.channel_stride, offsets, panel.data());
        const T* rows = w.data() + first_output * conv.depth();
        multiply_panel(rows, conv.group_outputs, conv.depth(), panel.data(), [&](int64_t row, T* values) {
          const int64_t channel = first_output + row;
          for (int64_t j = 0; j < width; ++j) values[j] += bias[static_cast<std::size_t>(channel)];
          const int64_t at = n * image.batch_stride + channel * image.channel_stride + first * step;
          store_elements(call.storage, out.data(), at, step, width, values);
        });
      }
    }
  });
}

}  // namespace

Result<Tensor> eval_conv(const OpCall& call) {
  FUSEC_ASSIGN(Tensor out, call.make_result());
  if (out.num_elements() == 0) return out;
  if (is_float(call.dtype)) {
    convolve<double>(call, out);
  } else {
    convolve<uint64_t>(call, out);  // wraps; signed products have the same bits
  }
  return out;
}

}  // namespace fusec::ir

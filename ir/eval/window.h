// SPDX-License-Identifier: Apache-2.0
// The sliding window of convolutions and poolings, over any number of spatial axes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/eval/op_call.h"

namespace fusec::ir {

// The memory layout of a tensor [N, C, spatial...] or [N, spatial..., C].
struct ImageLayout {
  int64_t batch = 0, channels = 0;  // extents
  int64_t batch_stride = 0, channel_stride = 0;
  Extents spatial, spatial_strides;

  ImageLayout(const Tensor& tensor, const std::string& layout) {
    const bool last = layout == "last";
    const std::size_t channel = last ? tensor.shape().size() - 1 : 1, first = last ? 1 : 2;
    batch = tensor.shape()[0];
    batch_stride = tensor.strides()[0];
    channels = tensor.shape()[channel];
    channel_stride = tensor.strides()[channel];
    for (std::size_t i = first; i < first + tensor.shape().size() - 2; ++i) {
      spatial.push_back(tensor.shape()[i]);
      spatial_strides.push_back(tensor.strides()[i]);
    }
  }
};

struct Window {
  Extents kernel, strides, pads, dilations;  // pads: all begins, then all ends

  Window(Extents kernel_extents, const Attrs& attrs)
      : kernel(std::move(kernel_extents)),
        strides(attrs.ints("strides")),
        pads(attrs.ints("pads")),
        dilations(attrs.ints("dilations")) {}

  struct Tap {
    int64_t offset = -1;        // in memory; -1 in the padding
    bool inside_padded = true;  // false past the end padding, which only ceil_mode reaches
  };
  Tap tap(const Extents& output, const Extents& position, const ImageLayout& in) const {
    Tap tap;
    int64_t offset = 0;
    bool inside = true;
    for (std::size_t i = 0; i < kernel.size(); ++i) {
      const int64_t at = output[i] * strides[i] + position[i] * dilations[i] - pads[i];
      inside = inside && at >= 0 && at < in.spatial[i];
      tap.inside_padded = tap.inside_padded && at < in.spatial[i] + pads[kernel.size() + i];
      offset += at * in.spatial_strides[i];
    }
    if (inside) tap.offset = offset;
    return tap;
  }
};

}  // namespace fusec::ir

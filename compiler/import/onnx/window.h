// SPDX-License-Identifier: Apache-2.0
// Windows of convolutions and pooling, read from the attributes of a node and checked. Every entry and every reach is
// below 2^31.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/import/onnx/ops.h"

namespace fusec::importer {

struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads;  // pads: begins, then ends
  std::size_t axes() const { return kernel.size(); }
  int64_t dilated_extent(std::size_t i) const { return dilations[i] * (kernel[i] - 1) + 1; }
};

// Checks that an attribute has `n` entries, each from `least` (else invalid_model) to 2^31 - 1 (else unsupported).
// `what` names the attribute in the error.
void check_count(const std::vector<int64_t>& values, std::size_t n, int64_t least, const char* what);

// Reads kernel, strides, dilations and pads as the node gives them. The caller must handle auto_pad.
Window read_window(const NodeContext& c, std::vector<int64_t> kernel);
// Reads the window with the pads that auto_pad asks for on these extents.
Window read_window(const NodeContext& c, const Shape& spatial, std::vector<int64_t> kernel);
// Reads the window of a pooling op, where kernel_shape is an attribute.
Window read_pool_window(const NodeContext& c);

// Returns NOTSET, VALID, SAME_UPPER or SAME_LOWER.
std::string read_auto_pad(const NodeContext& c);
// Splits a padding between begin and end of axis i. If `total` is odd, `more_at_begin` says which end gets the larger
// part.
void split_padding(Window& w, std::size_t i, int64_t total, bool more_at_begin);

// The extents of the axes after batch and channel.
Shape spatial_extents(const Builder& b, Val x);
// The spatial extents of a filter [out channels, in channels, spatial...]. They must be known, and equal to
// kernel_shape if that is given.
std::vector<int64_t> filter_extents(const NodeContext& c, Val x, Val filter);

// Emits a convolution. An invalid bias means that there is none.
Val conv(Builder& b, Val x, Val filter, Val bias, const Window& w, int64_t groups);
ir::Attrs pool_attrs(const Window& w, int64_t ceil_mode);

}  // namespace fusec::importer

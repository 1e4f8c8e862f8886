// SPDX-License-Identifier: Apache-2.0
// Windows of convolutions and pooling: attributes of a node, checked. Every entry is below 2^31, and so is a reach.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/import/onnx/ops.h"

namespace fusec::importer {

struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads;  // pads: begins, then ends
  std::size_t axes() const { return kernel.size(); }
  int64_t reach(std::size_t i) const { return dilations[i] * (kernel[i] - 1) + 1; }
};

// `what` names the attribute in the error: `n` entries, each from `least` (invalid_model) to 2^31 - 1 (unsupported).
void check_count(const std::vector<int64_t>& values, std::size_t n, int64_t least, const char* what);

// kernel, strides, dilations and pads as the node says; auto_pad is left to the caller.
Window read_window(const NodeContext& c, std::vector<int64_t> kernel);
// With the pads that auto_pad asks for on these extents.
Window read_window(const NodeContext& c, const Shape& spatial, std::vector<int64_t> kernel);
// Of pooling: kernel_shape is an attribute.
Window read_pool_window(const NodeContext& c);

// NOTSET, VALID, SAME_UPPER or SAME_LOWER.
std::string read_auto_pad(const NodeContext& c);
// Splits a padding between begin and end of axis i. Of an odd one, `more_at_begin` says where the larger half goes.
void split_padding(Window& w, std::size_t i, int64_t total, bool more_at_begin);

// The extents after batch and channel.
Shape spatial_extents(const Builder& b, Val x);
// Those of a filter [out channels, in channels, spatial...], which must be known and be kernel_shape where that is
// given.
std::vector<int64_t> filter_extents(const NodeContext& c, Val x, Val filter);

// An invalid bias is none.
Val conv(Builder& b, Val x, Val filter, Val bias, const Window& w, int64_t groups);
ir::Attrs pool_attrs(const Window& w, int64_t ceil_mode);

}  // namespace fusec::importer

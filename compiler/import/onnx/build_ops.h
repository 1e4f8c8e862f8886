// SPDX-License-Identifier: Apache-2.0
// Helpers with which op handlers emit nodes. A cast, reshape, broadcast, transpose, slice, concat or reduction that
// would not change its operand emits no node. Beside these short sequences there are quantized ops, the interpolation
// of Resize, and the windows of convolutions and pooling, which are read from the attributes of a node and checked:
// every entry and every reach is below 2^31.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/import/onnx/builder.h"
#include "compiler/import/onnx/ops.h"

namespace fusec::importer {

using ir::ScalarOp;
using ir::TensorOp;

Val add(Builder& b, Val x, Val y);
Val sub(Builder& b, Val x, Val y);
Val mul(Builder& b, Val x, Val y);
Val div(Builder& b, Val x, Val y);
Val mul(Builder& b, Val x, double y);  // y gets the type of x
Val add(Builder& b, Val x, double y);
Val unary(Builder& b, ScalarOp op, Val x);
Val binary(Builder& b, ScalarOp op, Val x, Val y);

Val cast(Builder& b, Val x, DType to);
Val reshape(Builder& b, Val x, const Shape& shape);
Val broadcast(Builder& b, Val x, const Shape& shape);
Val transpose(Builder& b, Val x, const std::vector<int64_t>& perm);
Val concat(Builder& b, const std::vector<Val>& parts, int64_t axis);
Val iota(Builder& b, const Shape& shape, int64_t axis, DType dtype);
// Slices `size` elements of one axis from `start`.
Val slice(Builder& b, Val x, int64_t axis, const Dim& start, const Dim& size, int64_t step = 1);

// Reduces x over these axes. With `keep` they stay, with extent 1.
Val reduce(Builder& b, TensorOp op, Val x, const std::vector<int64_t>& axes, bool keep);
Val drop_axes(Builder& b, Val x, const std::vector<int64_t>& axes);  // the axes must have extent 1

// Reshapes a vector to broadcast along `axis` of a tensor of this rank: [C] -> [C, 1, 1].
Val along_axis(Builder& b, Val vector, int64_t axis, int64_t rank);

// Reports channels that do not split into this number of groups: unsupported if a symbol in their number leaves it
// open, else invalid_model.
[[noreturn]] void fail_groups(const Dim& channels, int64_t groups);

// Throws ImportError when an index that is known lies outside an axis of this extent.
void check_indices(const Builder& b, Val index, const Dim& extent);

// Casts x to the type in which composite float ops compute: f32 for narrower types. Such ops round once at their end.
Val widen(Builder& b, Val x);
std::vector<int64_t> range_axes(int64_t begin, int64_t end);

// Computes saturate(round(x) + zero) in an integer type of 8 or 16 bits; an invalid zero is 0.
Val saturate(Builder& b, Val x, Val zero, DType to);

// An integer operand and its zero point, already shaped to broadcast to it; an invalid zero is 0.
struct Quantized {
  Val x, zero;
};

// Describes the sums that a matrix product or convolution computes. Its second operand is viewed as [outer, count *
// size, inner].
struct Terms {
  Dim count;
  int64_t size;
  Dim inner;
  bool can_split;  // whether the sums may be split along `count`
};

// How sums of products of 8-bit integers (x - zero) are computed exactly in the float matmul or conv of a library. In
// f32 the sums are split into pieces so short that no sum exceeds 2^24. If that takes too many pieces, the whole sum is
// computed in f64, where it would be inexact only beyond 2^53.
struct ExactProduct {
  DType dtype = DType::f64;
  std::vector<Dim> ends;  // of the pieces, along `count`; the last one is count
  bool fits_i32 = false;
};
ExactProduct exact_product(const Builder& b, const Quantized& x, const Quantized& w, const Terms& terms);

// x - zero
Val centered(Builder& b, const Quantized& q, DType dtype);
// Casts the sums of a piece to i32; sums that do not fit wrap around.
Val as_i32(Builder& b, Val sums, const ExactProduct& product);

// The attributes of ONNX Resize, with ONNX's names and values.
struct ResizeRules {
  std::string mode;         // nearest, linear or cubic
  std::string coordinates;  // coordinate_transformation_mode
  std::string nearest;      // nearest_mode
  double cubic_a = -0.75;
  double extrapolation = 0;  // value of results outside the operand, with tf_crop_and_resize
  bool exclude_outside = false, antialias = false;

  bool crops() const { return coordinates == "tf_crop_and_resize"; }
};

// How one axis is resized. `scale` is set if the model gives it; otherwise it is out / in.
struct ResizedAxis {
  int64_t axis = 0;
  Dim in, out;
  std::optional<double> scale;
  double start = 0, end = 1;  // of the region of interest, as fractions of the operand
};

// Resizes these axes of x, one after another. Nearest takes elements of any dtype. The other modes compute half floats
// in f32 and integers in f64, and round once at their end, integers to nearest even. Throws ImportError for rule values
// that ONNX does not know, and for antialias where extents are not known.
Val resize(Builder& b, Val x, const std::vector<ResizedAxis>& axes, const ResizeRules& rules);

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

// SPDX-License-Identifier: Apache-2.0
// Emits the interpolation of ONNX Resize as nodes of the Builder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/import/onnx/builder.h"

namespace fusec::importer {

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

}  // namespace fusec::importer

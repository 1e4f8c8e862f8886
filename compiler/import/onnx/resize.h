// SPDX-License-Identifier: Apache-2.0
// Interpolation along axes, as ONNX Resize means it, in nodes of the Builder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/import/onnx/builder.h"

namespace fusec::importer {

// Attributes of ONNX Resize, by their names and values there.
struct ResizeRules {
  std::string mode;         // nearest, linear or cubic
  std::string coordinates;  // coordinate_transformation_mode
  std::string nearest;      // nearest_mode
  double cubic_a = -0.75;
  double extrapolation = 0;  // what results outside of the operand are, with tf_crop_and_resize
  bool exclude_outside = false, antialias = false;

  bool crops() const { return coordinates == "tf_crop_and_resize"; }
};

// What happens to one axis. scale: as given; without one it is out / in.
struct ResizedAxis {
  int64_t axis = 0;
  Dim in, out;
  std::optional<double> scale;
  double start = 0, end = 1;  // of the region of interest, in extents of the operand
};

// x with these axes resized, one after another. Nearest takes elements of any dtype; the other modes compute half
// floats in f32 and integers in f64, and round once at their end, integers to the nearest even one. Throws ImportError
// for values of rules that ONNX does not know, and for antialias where extents are not known.
Val resize(Builder& b, Val x, const std::vector<ResizedAxis>& axes, const ResizeRules& rules);

}  // namespace fusec::importer

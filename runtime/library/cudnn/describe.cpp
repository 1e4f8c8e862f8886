// SPDX-License-Identifier: Apache-2.0
// Derives cuDNN tensor descriptions (order, strides, dense copies) from normalized operands at bind time. Adjusts only
// strides that no element uses.

#include <algorithm>

#include "runtime/library/cudnn/build.h"

namespace fusec::runtime::cudnn {
namespace {

void insert_spatial_axis(CallOperand& o) {
  o.dims.insert(o.dims.begin() + 2, 1);
  o.strides.insert(o.strides.begin() + 2, 0);
}

}  // namespace

ImageOrder infer_order(const CallOperand& image, ImageOrder otherwise) {
  if (image.dims[1] == 1) return otherwise;
  const bool has_places = std::any_of(image.dims.begin() + 2, image.dims.end(), [](int64_t e) { return e != 1; });
  if (!has_places) return otherwise;
  return image.strides[1] == 1 ? ImageOrder::last : ImageOrder::first;
}

Problem with_two_axes(Problem problem) {
  if (problem[Role::output].dims.size() != 3) return problem;
  problem.for_each_operand(insert_spatial_axis);
  Window& w = problem.window;
  for (Extents* ones : {&w.kernel, &w.strides, &w.dilations}) ones->insert(ones->begin(), 1);
  w.before.insert(w.before.begin(), 0);
  w.after.insert(w.after.begin(), 0);
  return problem;
}

TensorSpec describe(const CallOperand& operand, ImageOrder order) {
  return {operand.dtype, operand.dims, canonical_image(operand, order).strides, operand.alignment};
}

TensorSpec dense(const CallOperand& operand, ImageOrder order) {
  return {operand.dtype, operand.dims, dense_image(operand, order).strides};
}

}  // namespace fusec::runtime::cudnn

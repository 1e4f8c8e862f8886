// SPDX-License-Identifier: Apache-2.0
// Derives cuDNN tensor descriptions (order, strides, dense copies) from normalized operands at bind time. Adjusts only
// strides that no element uses.

#include "runtime/library/cudnn/describe.h"

#include <algorithm>

namespace fusec::runtime::cudnn {
namespace {

// Axes from the innermost outwards.
std::vector<std::size_t> axes_inside_out(std::size_t rank, Order order) {
  std::vector<std::size_t> axes;
  if (order == Order::last) axes.push_back(1);
  for (std::size_t i = rank; i-- > 2;) axes.push_back(i);
  if (order == Order::first) axes.push_back(1);
  axes.push_back(0);
  return axes;
}

void insert_spatial_axis(Operand& o) {
  o.dims.insert(o.dims.begin() + 2, 1);
  o.strides.insert(o.strides.begin() + 2, 0);
}

}  // namespace

Order order_of(const Operand& image, Order otherwise) {
  if (image.dims[1] == 1) return otherwise;
  const bool has_places = std::any_of(image.dims.begin() + 2, image.dims.end(), [](int64_t e) { return e != 1; });
  if (!has_places) return otherwise;
  return image.strides[1] == 1 ? Order::last : Order::first;
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

TensorSpec describe(const Operand& operand, Order order) {
  TensorSpec spec{operand.dtype, operand.dims, operand.strides, operand.alignment};
  int64_t next = 1;
  for (const std::size_t axis : axes_inside_out(spec.dims.size(), order)) {
    if (spec.dims[axis] == 1) {
      spec.strides[axis] = next;
    } else {
      next = spec.strides[axis] * spec.dims[axis];
    }
  }
  return spec;
}

TensorSpec dense(const Operand& operand, Order order) {
  TensorSpec spec{operand.dtype, operand.dims, operand.strides};
  int64_t next = 1;
  for (const std::size_t axis : axes_inside_out(spec.dims.size(), order)) {
    spec.strides[axis] = next;
    next *= spec.dims[axis];
  }
  return spec;
}

}  // namespace fusec::runtime::cudnn

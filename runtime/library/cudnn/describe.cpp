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

// For one sample nothing tells whether an operand is broadcast along the batch, so that must not decide.
Problem of_many_samples(Problem problem) {
  constexpr int64_t kManySamples = 32;
  const Extents out = problem[Role::output].dims;
  problem.for_each_operand([&](CallOperand& operand) {
    const bool is_addend = operand.role == Role::addend || operand.role == Role::scale;
    const bool is_whole = std::equal(out.begin() + 1, out.end(), operand.dims.begin() + 1, operand.dims.end());
    if (operand.role == Role::weight || operand.role == Role::bias || (is_addend && !is_whole && operand.dims[0] == 1))
      return;
    int64_t span = 1;
    for (std::size_t axis = 1; axis < operand.dims.size(); ++axis)
      span = std::max(span, operand.dims[axis] * operand.strides[axis]);
    if (operand.dims[0] == 1) operand.strides[0] = std::max(operand.strides[0], span);
    operand.dims[0] = kManySamples;
  });
  return problem;
}

Status not_for_this_batch(const std::string& plan, const Status& reason) {
  return Status(StatusCode::invalid_argument,
                "batch-invariant mode: cuDNN's plan for many samples, " + plan + ", does not serve this batch: " +
                    reason.message() + "; leave the mode out, or compute this step by generated code (--no-library)");
}

TensorSpec describe(const CallOperand& operand, ImageOrder order) {
  return {operand.dtype, operand.dims, canonical_image(operand, order).strides, operand.alignment};
}

TensorSpec dense(const CallOperand& operand, ImageOrder order) {
  return {operand.dtype, operand.dims, dense_image(operand, order).strides};
}

}  // namespace fusec::runtime::cudnn

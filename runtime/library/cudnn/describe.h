// SPDX-License-Identifier: Apache-2.0
// Converts operands to cuDNN tensor descriptions.
#pragma once

#include <string>

#include "runtime/library/cudnn/spec.h"

namespace fusec::runtime::cudnn {

// The memory order of an image; `otherwise` if either fits.
ImageOrder infer_order(const CallOperand& image, ImageOrder otherwise);

// cuDNN has no images with one spatial axis; they get a second one of extent 1.
Problem with_two_axes(Problem problem);

// The same elements, with the strides of axes of extent 1 set to those of a dense tensor in this order. cuDNN compares
// these strides.
TensorSpec describe(const CallOperand& operand, ImageOrder order);
// A dense tensor in this order, in separate memory.
TensorSpec dense(const CallOperand& operand, ImageOrder order);

}  // namespace fusec::runtime::cudnn

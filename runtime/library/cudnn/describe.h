// SPDX-License-Identifier: Apache-2.0
// Converts operands to cuDNN tensor descriptions.
#pragma once

#include <string>

#include "runtime/library/cudnn/spec.h"

namespace fusec::runtime::cudnn {

enum class Order { last, first };  // memory order N spatial... C, or N C spatial...

// The memory order of an image; `otherwise` if either fits.
Order order_of(const Operand& image, Order otherwise);

// cuDNN has no images with one spatial axis; they get a second one of extent 1.
Problem with_two_axes(Problem problem);

// The same elements, with the strides of axes of extent 1 set to those of a dense tensor in this order. cuDNN compares
// these strides.
TensorSpec describe(const Operand& operand, Order order);
// A dense tensor in this order, in separate memory.
TensorSpec dense(const Operand& operand, Order order);

}  // namespace fusec::runtime::cudnn

// SPDX-License-Identifier: Apache-2.0
// Our operands in cuDNN's words.
#pragma once

#include <string>

#include "runtime/library/cudnn/spec.h"

namespace fusec::runtime::cudnn {

enum class Order { last, first };  // memory order N spatial... C, or N C spatial...

// How an image lies in memory, or, where either fits, `otherwise`.
Order order_of(const Operand& image, Order otherwise);

// cuDNN has no images of one spatial axis: they get one of extent 1.
Problem with_two_axes(Problem problem);

// The same elements with strides at axes of extent 1 as a dense tensor of this order has them, which is what cuDNN
// compares with.
TensorSpec describe(const Operand& operand, Order order);
// Dense in this order, in memory of its own.
TensorSpec dense(const Operand& operand, Order order);

}  // namespace fusec::runtime::cudnn

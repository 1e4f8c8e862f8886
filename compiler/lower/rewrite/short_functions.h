// SPDX-License-Identifier: Apache-2.0
// Functions whose results are rounded to 16 bits at once, and the short forms that suffice there.
#pragma once

#include <map>

#include "ir/kernel/kernel.h"

namespace fusec::compiler {

// Values, and the one type of 16 bits to which all that reads them rounds.
using Roundings = std::map<ir::RegId, DType>;
// Those that only casts read.
Roundings find_rounded_values(const ir::Kernel& kernel);

// Replaces each f32 gelu of find_rounded_values by gelu_as_f16 or gelu_as_bf16, and each such sigmoid, also where it is
// a factor of what is rounded or of such a factor, by sigmoid_as_16_bits (ir/ops/kernel_ops.def).
void shorten_functions(ir::Kernel& kernel);

}  // namespace fusec::compiler

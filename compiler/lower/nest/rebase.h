// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "compiler/lower/nest/nest.h"

namespace fusec::compiler {

// Inputs whose owner is one of `owners` begin at the first element that the kernel reads, not at the start of the
// allocation: regions that take slices of one value, each at its own place, become one kernel. Comes after
// find_aliases, and leaves inputs that may be an output's memory as they are.
void rebase_inputs(Nest& nest, const std::function<bool(ir::ValueId)>& owners);

}  // namespace fusec::compiler

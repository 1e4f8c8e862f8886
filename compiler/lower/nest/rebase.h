// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "compiler/lower/nest/nest.h"

namespace fusec::compiler {

// Makes inputs whose owner is one of `owners` begin at the first element that the kernel reads, not at the start of the
// allocation. Regions that take different slices of one value then become one kernel. It must run after find_aliases,
// and it leaves inputs that may alias an output as they are.
void rebase_inputs(LoopNest& nest, const std::function<bool(ir::ValueId)>& bases);

}  // namespace fusec::compiler

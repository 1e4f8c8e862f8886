// SPDX-License-Identifier: Apache-2.0
// Kernels cut into what becomes one function each.
#pragma once

#include <vector>

#include "ir/kernel/kernel.h"

namespace fusec::codegen {

// A nest of grid loops, outermost first, or a run of other statements without any.
struct Phase {
  std::vector<ir::LoopHead> grid;
  std::vector<const ir::Stmt*> body;
};

// In order. Pure statements at the top of the kernel are repeated in every later phase.
std::vector<Phase> split_phases(const ir::Kernel& kernel);
Dim iterations_of(const Phase& phase);

}  // namespace fusec::codegen

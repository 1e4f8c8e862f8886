// SPDX-License-Identifier: Apache-2.0
// Splits a kernel into phases, each of which becomes one function.
#pragma once

#include <vector>

#include "ir/kernel/kernel.h"

namespace fusec::codegen {

using ir::IndexExpr;

// A nest of grid loops, outermost first, with its body; or a run of other statements, with no grid loops.
struct Phase {
  std::vector<ir::LoopHead> grid;
  std::vector<const ir::Stmt*> body;
};

// The phases in order. Pure statements at the top of the kernel are repeated in every later phase.
std::vector<Phase> split_phases(const ir::Kernel& kernel);
IndexExpr count_iterations(const Phase& phase);

}  // namespace fusec::codegen

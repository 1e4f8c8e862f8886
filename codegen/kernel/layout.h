// SPDX-License-Identifier: Apache-2.0
// How a kernel is laid out, the same for all emitters: its phases, each of which becomes one function, and where the
// elements of its buffers lie in memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fusec/target.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen {

using ir::IndexExpr;

// Strides in elements: the stated ones, or else row-major over the shape; with layout "pitch P" rows are P elements
// apart.
ir::IndexShape compute_strides(const ir::Buffer& buffer);
IndexExpr linear_index(const ir::Buffer& buffer, const std::vector<IndexExpr>& index);
// The greatest known divisor of an offset, up to 16 by the facts on extents and by how quotients and remainders of the
// thread's number belong together; 0 for 0.
int64_t find_divisor(const IndexExpr& offset, const ir::Kernel& kernel);

// A nest of grid loops, outermost first, with its body; or a run of other statements, with no grid loops.
struct Phase {
  std::vector<ir::LoopHead> grid;  // of ordered tasks, those around the passes
  std::vector<const ir::Stmt*> body;
  int threads = 0;  // of a block, in the lowered form
  int cluster = 1;  // blocks of a cluster, all of which run one iteration
  std::optional<ir::TaskOrder> tasks = {};
  std::vector<Phase> passes = {};  // of ordered tasks: the grid loop and the body of each
};

// The phases in order. Pure statements at the top of the kernel are repeated in every later phase.
std::vector<Phase> split_phases(const ir::Kernel& kernel);
// Of the grid loops, times the blocks that run each.
IndexExpr count_blocks(const Phase& phase);
// Blocks that a multiprocessor must be able to hold at once, which bounds their registers; 0: any number.
int count_resident(const ir::Kernel& kernel, const Phase& phase);
// The most registers that a thread may have for that; 0: any number.
int most_registers(const ir::Kernel& kernel, const Phase& phase, const Target& target);
// Whether threads loop over many loads and never wait for each other, as over the rows of a window. Such code is faster
// with the registers that a bound leaves it than with the fewer that ptxas takes by itself.
bool loops_over_loads(const ir::Kernel& kernel, const Phase& phase);

// Whether every function of a target begins by letting the launch after it start and by waiting for the launches before
// it (programmatic dependent launch). Blocks of the next launch are then on the GPU when this one ends.
bool waits_for_launches(const Target& target);

// The name of the function of one of `phases` phases, which profilers show: the kernel's name, if lower made it
// (compiler/lower/schedule/kernel_name.h), else "kernel"; with the phase's number if there are several.
std::string make_entry_name(const ir::Kernel& kernel, std::size_t phase, std::size_t phases);

}  // namespace fusec::codegen

// SPDX-License-Identifier: Apache-2.0
// What the statements of one phase of a kernel do, counted: every access to memory with its strides, ops by class,
// local memory and barriers. Shared by the costs of GPUs and of CPUs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "ir/cost/cost.h"
#include "ir/kernel/kernel.h"

namespace fusec::ir {

// A loop around a statement, outermost first. `trip` is its mean number of iterations.
struct CountedLoop {
  LoopTag tag = LoopTag::seq;
  VarId var;
  double trip = 1;
};

// One load or store of a statement. `total` counts elements over the phase, `distinct` those of different addresses,
// and `of_task` and `distinct_of_task` the same within one iteration of the grid loops.
struct CountedAccess {
  BufferId buffer;
  bool is_store = false, streams = false, gathers = false;
  bool repeats = false;  // the outermost grid loop does not move it
  int width = 1;
  double element = 4;  // bytes
  double total = 0, distinct = 0;
  double of_task = 0, distinct_of_task = 0;
  double start = 0;              // bytes from the buffer's start, in the first iteration of all loops
  double lane_stride = 1;        // bytes
  double least_stride = 0;       // bytes: the smallest step of any loop or lane; 0: none moves
  double sectors = 1, warp = 1;  // of 32 bytes, that so many neighbouring threads touch at once
  double sector_reuse = 1;       // successive iterations of a thread that stay in one sector
  double run_of_task = 4;        // bytes in a row that a task touches
  double statements = 0;         // how often the statement runs in a thread, over the threads that its loops name
  double copies = 1;             // threads that run it beside each other with the same address
};

struct PhaseCounts {
  double tasks = 1;
  double threads = 1;                   // of a block
  double cluster = 1;                   // blocks that share a task
  std::vector<CountedAccess> accesses;  // to parameters and scratch buffers
  OpCounts ops;
  double statements = 0;                       // accesses, index arithmetic and loop steps, as additions of one thread
  double shared_accesses = 0;                  // bytes
  double shared_bytes = 0;                     // of a block
  double local_bytes = 0;                      // of the reg buffers of one thread; of one task on a CPU
  double read_at_once = 0, read_in_loops = 0;  // bytes, by loads outside of and inside long loops of a thread
  bool exchanges = false;                      // threads of a block wait for each other
  double chain_us = 0;                         // of one thread from start to end, alone on the machine
};

struct CountSettings {
  const Kernel& kernel;
  const Target& target;
  std::map<SymbolId, int64_t> values;  // of extents
  bool near = false;                   // loads come from the last-level cache
};

// `phase` is a statement of the kernel's body.
PhaseCounts count_phase(CountSettings& settings, const Stmt& phase);

}  // namespace fusec::ir

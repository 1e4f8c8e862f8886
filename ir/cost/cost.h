// SPDX-License-Identifier: Apache-2.0
// Cost: how long a kernel takes, by its loops and the machine model of a target. A pure function: equal kernels,
// extents and targets give equal figures on every machine. It counts what each phase reads, writes, reads again and
// computes, asks how much of the machine the phase keeps busy, and takes the slowest of memory, instructions and
// latency, with some of the others beside it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "fusec/target.h"
#include "ir/kernel/kernel.h"

namespace fusec::ir {

// Where the data of a launch lies when it begins.
enum class Residence : uint8_t {
  near,    // in the last-level cache as far as it fits, as between the steps of a model
  memory,  // nowhere near, as after a flush
};

// How a launch is begun.
enum class Launching : uint8_t {
  in_plan,  // behind another one: in a CUDA graph, or by a thread of a CPU that runs a plan
  alone,    // between two events of a stream, as measurements of a GPU begin it
};

struct CostQuery {
  std::span<const int64_t> extents;  // values of Kernel::extents; what is missing counts as 1
  Residence residence = Residence::near;
  Launching launching = Launching::in_plan;
};

// In units of the column `cost` of the scalar op table, of all threads.
struct OpCounts {
  double simple = 0, transcendental = 0, division = 0, conversion = 0;
  double total() const { return simple + transcendental + division + conversion; }
};

// Of one grid nest. Bytes are those of parameters and scratch buffers.
struct PhaseCost {
  double blocks = 1;         // or tasks of a CPU
  double threads = 1;        // of a block
  double resident = 1;       // blocks that an SM holds at once
  double workers = 1;        // SMs or threads of a CPU that have work
  double read = 0;           // distinct bytes
  double written = 0;        // distinct bytes
  double reread_cache = 0;   // bytes that are read again, from the last-level cache
  double reread_memory = 0;  // bytes that are read again where no cache could keep them
  double moved_cache = 0;    // bytes between the last-level cache and the workers, with what is moved in vain
  OpCounts ops;
  double memory_us = 0, issue_us = 0, latency_us = 0;
  double us = 0;
};

struct KernelCost {
  std::vector<PhaseCost> phases;
  int64_t launches = 0;
  double read = 0, written = 0;  // distinct bytes of parameters, each buffer once
  double predicted_us = 0;       // three significant digits
  double bound_us = 0;           // that a copy of `read` and `written` takes; three significant digits
  OpCounts ops() const;
};

KernelCost cost(const Kernel& kernel, const Target& target, const CostQuery& query);

// Microseconds of the fastest copy that reads and writes so much in one launch.
double copy_us(const Target& target, double read, double written, Residence residence, Launching launching);

// The figure with three significant digits, so that it does not depend on the last bit of a sum.
double rounded(double us);

}  // namespace fusec::ir

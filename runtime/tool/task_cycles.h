// SPDX-License-Identifier: Apache-2.0
// What the arithmetic of a pattern costs, apart from the memory that it runs on.
#pragma once

#include <span>

#include "fusec/engine.h"
#include "fusec/tensor.h"

namespace fusec::tool {

struct TaskCycles {
  double per_16 = 0;       // core cycles per 16 elements of the largest input or output, all kernels together
  int64_t task_bytes = 0;  // that one task touches, the largest: within a first-level cache or not
};

// The model compiled for caches that hold everything, so without hints and streaming stores; then one task of each
// phase run again and again by one thread. Library steps do not count.
Result<TaskCycles> task_cycles(const Model& model, const Options& options, Target target,
                               std::span<const Tensor> inputs, std::span<Tensor> outputs);

// Of this thread's core, in GHz, while it computes: from a chain of dependent multiplications of 3 cycles each, which
// is their latency on the x86-64 cores since 2008.
double core_ghz();

}  // namespace fusec::tool

// SPDX-License-Identifier: Apache-2.0
// Machine code for the kernels of a Program: from another Engine of this process, from the kernel cache, or by emit.
#pragma once

#include <cstdint>

#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "ir/program/program.h"
#include "ir/support/deadline.h"
#include "runtime/cache/artifact.h"
#include "runtime/link/link.h"

namespace fusec::runtime {

struct KernelCounts {
  int64_t distinct = 0, compiled = 0, cached = 0, damaged = 0;
};

// All of picked_kernels(program). Distinct kernels are made by up to `threads` threads side by side; in one process a
// key is compiled by one of them while others wait. `cache` may be null; `reuse`: kernels that another Engine holds are
// taken as they are. The first error in kernel order is the answer; `warn` is
// told, by any of the threads, of kernels that another emitter had to make. `deadline` is asked before each kernel.
Result<Artifacts> obtain_kernels(const ir::Program& program, const Target& target, Codegen codegen, KernelCache* cache,
                                 bool reuse, int threads, const Warn& warn, KernelCounts& counts,
                                 const ir::Deadline& deadline = {});

}  // namespace fusec::runtime

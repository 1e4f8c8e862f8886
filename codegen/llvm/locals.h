// SPDX-License-Identifier: Apache-2.0
// Where the local buffers of a kernel live: in vector slots (one SSA value each, after promotion) when every
// access is known at write time, else in the thread's local memory.
#pragma once

#include <map>

#include "codegen/kernel/layout.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen {

struct LocalBuffer {
  // Slots: `count` vectors of `width` elements; else memory at `offset` bytes, a Dim over extents.
  bool slots = false;
  int width = 1;
  int64_t count = 0;
  Dim offset;
};

struct Locals {
  std::map<ir::BufferId, LocalBuffer> buffers;  // spaces reg and (on a CPU) shared
  Dim bytes;                                    // of local memory in all
};

inline constexpr int64_t kLocalAlignment = 64;

Dim aligned_bytes(const Dim& elements, DType dtype);  // a multiple of kLocalAlignment
// `shared_too`: shared memory is the thread's own, as on a CPU.
Locals plan_locals(const ir::Kernel& kernel, bool shared_too = true);

}  // namespace fusec::codegen

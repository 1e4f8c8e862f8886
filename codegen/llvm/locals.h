// SPDX-License-Identifier: Apache-2.0
// Where the local buffers of a kernel are stored: in vector slots (one SSA value each, after promotion) if every access
// is known at write time, else in the thread's local memory.
#pragma once

#include <map>

#include "codegen/kernel/layout.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen {

using ir::IndexExpr;

struct LocalBuffer {
  // With slots: `count` vectors of `width` elements. Else memory at `offset` bytes, an expression over extents.
  bool slots = false;
  int width = 1;
  int64_t count = 0;
  IndexExpr offset;
};

struct Locals {
  std::map<ir::BufferId, LocalBuffer> buffers;  // spaces reg and (on a CPU) shared
  IndexExpr bytes;                              // total size of local memory
};

inline constexpr int64_t kLocalAlignment = 64;

IndexExpr aligned_bytes(const IndexExpr& elements, DType dtype);  // a multiple of kLocalAlignment
// `shared_too`: shared memory is private to the thread, as on a CPU.
Locals plan_locals(const ir::Kernel& kernel, bool shared_too = true);

}  // namespace fusec::codegen

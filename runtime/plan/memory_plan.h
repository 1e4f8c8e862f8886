// SPDX-License-Identifier: Apache-2.0
// plan_memory: offsets in one arena for intervals with lifetimes, so that intervals alive at the same step never
// overlap.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/device/host/memory.h"

namespace fusec::runtime {

// Alive at the steps first .. last, both included.
struct BufferInterval {
  int64_t bytes = 0;
  int first = 0, last = 0;
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  // bytes, multiples of the alignment
  int64_t arena_bytes = 0;
};

// Deterministic. Throws DimOverflow when all intervals together pass 63 bits. Time grows with the square of the number
// of intervals; the search for a better plan is bounded.
MemoryPlan plan_memory(std::span<const BufferInterval> intervals, int64_t alignment = kAlignment);

}  // namespace fusec::runtime

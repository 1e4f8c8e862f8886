// SPDX-License-Identifier: Apache-2.0
// The memory of a Plan: lifetimes of temporaries over the executed steps, in-place merging, and offsets in one arena,
// so that blocks alive at the same step never overlap. The live bound, the bytes that any plan of these steps needs, is
// a baseline for the planner; live_bound.cpp shares no code with it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/device/host/memory.h"
#include "runtime/library/interface/library.h"
#include "runtime/plan/resolve.h"

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

// One per step, null for kernel steps. Plans of one set of shapes share them.
using LibraryOps = std::vector<std::shared_ptr<LibraryOp>>;

// First and last step that mentions an allocation; first > last: none does.
struct Lifetime {
  int first = INT32_MAX, last = -1;
  bool used() const { return last >= 0; }
};
std::vector<Lifetime> lifetimes(const ir::Program& program, const ResolvedProgram& resolved);  // by AllocId

// An input and an output argument of a step that may be the same memory.
struct AliasPair {
  int in = 0, out = 0;
};
std::vector<AliasPair> alias_pairs(const ir::Program& program, const ResolvedStep& step, const LibraryOp* op);

// Both views are the same window of memory of one layout, and the step mentions each allocation only once.
bool same_window(const ResolvedStep& step, const ResolvedView& in, const ResolvedView& out);

struct ArenaLayout {
  std::vector<int64_t> alloc_offset;      // by AllocId; -1: not in the arena
  std::vector<int64_t> kept_offset;       // by AllocId; -1: not kept
  std::vector<int64_t> workspace_offset;  // by step; -1: none
  int64_t arena_bytes = 0;
  int64_t kept_bytes = 0;
};

// Kept values lie one after the other in memory of their own. A temporary takes over the memory of one of its size that
// dies where it is born, if the step allows it and both views are the same_window.
ArenaLayout plan_arena(const ir::Program& program, const ResolvedProgram& resolved, const LibraryOps& ops,
                       int64_t alignment = kAlignment);

// What only the bound library knows of a library step.
struct LibraryFacts {
  int64_t workspace_bytes = 0;
  std::vector<int> may_alias;
};

// The largest sum over steps of the bytes of all temporaries alive there; an output that may take the place of an input
// of the same view that dies there counts once with it; views count through their allocation; the step's workspace is
// included. facts(i) is asked for library steps only.
int64_t live_lower_bound_bytes(const ir::Program& program, const ResolvedProgram& resolved,
                               const std::function<LibraryFacts(std::size_t step)>& facts);

}  // namespace fusec::runtime

// SPDX-License-Identifier: Apache-2.0
// Lifetimes of temporaries over the executed steps, in-place merging, and the arena offset of each.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/device/host/memory.h"
#include "runtime/library/interface/library.h"
#include "runtime/plan/memory_plan.h"
#include "runtime/plan/resolve.h"

namespace fusec::runtime {

using LibraryOps = std::vector<std::unique_ptr<LibraryOp>>;  // one per step, null for kernel steps

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
  std::vector<int64_t> workspace_offset;  // by step; -1: none
  int64_t arena_bytes = 0;
};

// A temporary takes over the memory of one of its size that dies where it is born, if the step allows it and both views
// are the same_window.
ArenaLayout plan_arena(const ir::Program& program, const ResolvedProgram& resolved, const LibraryOps& ops,
                       int64_t alignment = kAlignment);

}  // namespace fusec::runtime

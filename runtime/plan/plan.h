// SPDX-License-Identifier: Apache-2.0
// Plan: resolved launches for one set of symbol values. Immutable; shared by the Sessions that run it. The first of
// them run once, before all runs, into memory that stays. On the host, groups of launches need no barrier between them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/link/link.h"
#include "runtime/plan/memory_plan.h"
#include "runtime/plan/resolve.h"

namespace fusec::runtime {

enum class Base : uint8_t { arena, kept, input, output, constant };

// An address that a run completes: `bytes` after the start of the arena, of the kept values, or of input, output or
// constant `ordinal`.
struct Address {
  Base base = Base::arena;
  uint32_t ordinal = 0;
  int64_t bytes = 0;
};

struct PhaseLaunch {
  codegen::HostFunction function = nullptr;  // of the CPU
  int64_t iterations = 0;                    // tasks, or blocks of a GPU
  int threads = 1;                           // that share the tasks, or of a block
  void* device_function = nullptr;           // of a GPU: its CUfunction
  uint32_t dynamic_shared = 0;               // bytes of a block
  bool waits = false;                        // ArtifactPhase::waits
};

// One step. Ranges index Plan::args, extents and phases.
struct Launch {
  const ir::Step* step = nullptr;
  uint32_t first_arg = 0, args = 0;
  const LoadedKernel* kernel = nullptr;  // null: a library step
  uint32_t first_extent = 0, first_phase = 0, phases = 0;
  bool checks_status = false;  // the kernel has data-dependent indices
  const LibraryOp* op = nullptr;
  int threads = 1;          // of a library's call
  uint32_t group_size = 1;  // of the first of launches without a barrier between them: how many they are
  int group_threads = 1;    // that share these
  int64_t workspace = -1;   // bytes from the arena's start
  int64_t bytes = 0;        // that the step touches, broadcast axes once
};

// A tensor of the caller.
struct BoundIo {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  int64_t alignment = 1;             // bytes that the kernels which touch it rely on
  int first = INT32_MAX, last = -1;  // steps that touch it
};

// An output that is not written by a step of its own: a copy at the end of a run.
struct OutputCopy {
  Address from;
  uint32_t output = 0;
  int64_t bytes = 0;
};

// The step that first writes the output is the last to read the input, element for element: they may be the same
// memory.
struct InPlaceIo {
  uint32_t input = 0, output = 0;
};

struct Plan;
using PlanPtr = std::shared_ptr<const Plan>;

// The Plan of the same shapes that is to take the place of one: none, until a thread gives it once.
class Successor {
 public:
  void set(PlanPtr plan) {
    plan_ = std::move(plan);
    ready_.store(true, std::memory_order_release);
  }
  // Null: none. Costs a load.
  const Plan* get() const { return ready_.load(std::memory_order_acquire) ? plan_.get() : nullptr; }
  const PlanPtr& plan() const { return plan_; }  // where get() answered one

 private:
  PlanPtr plan_;
  std::atomic<bool> ready_{false};
};

struct Plan {
  std::shared_ptr<const LoadedProgram> loaded;
  Bindings bindings;
  int threads = 1;  // that a step may have
  int team = 1;     // the most that a step has
  LibraryOps ops;
  std::vector<Launch> launches;
  std::size_t once = 0;  // of the first launches: those that run once and write the kept values
  std::vector<Address> args;
  std::vector<int64_t> extents;
  std::vector<PhaseLaunch> phases;
  std::vector<OutputCopy> copies;
  std::vector<BoundIo> inputs, outputs;
  std::vector<InPlaceIo> in_place;
  int64_t arena_bytes = 0;
  int64_t kept_bytes = 0;
  int64_t local_bytes = 0;  // of one thread
  int64_t live_lower_bound_bytes = 0;
  int64_t generated = 0, library = 0;  // launches of a run by kind
  int64_t tuned = 0;                   // library launches with an algorithm of the tuning database
  int64_t compiled = 0;                // kernels that this bind was the first to need
  double bind_ms = 0;
  bool keeps_alike = false;     // of a specialised Plan: its kept values lie as in the generic one
  mutable Successor successor;  // of a generic Plan: the specialised one, which a run takes at its start
};

// Sets Launch::together and group_threads. Launches that follow one another run in one region where none touches memory
// that another writes; generated kernels of one phase only, whose indices cannot be out of range. A library begins
// regions of its own, and so does the first launch of a run.
void group_independent(Plan& plan, const ResolvedProgram& resolved);

}  // namespace fusec::runtime

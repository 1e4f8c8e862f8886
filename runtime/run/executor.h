// SPDX-License-Identifier: Apache-2.0
// Runs a Plan: the launches in order, each phase split over threads.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/device/host/memory.h"
#include "runtime/plan/plan.h"
#include "runtime/run/trace.h"

namespace fusec::runtime {

// What a run needs beside the caller's tensors; grows to the largest Plan that its owner runs.
struct RunMemory {
  HostAllocatorPtr allocator = nullptr;  // Options::allocator
  AlignedBuffer arena = {};
  AlignedBuffer locals = {};  // one part per thread
  // Makes both large enough; true when an address changed, so that Frames must be made anew.
  Result<bool> reserve(const Plan& plan);
};

// A Plan's argument table, completed with addresses. Runs touch it: one Frame per thread of the host program.
class Frame {
 public:
  Frame(std::shared_ptr<const Plan> plan, const RunMemory& memory);
  Frame(const Frame&) = delete;  // launches hold the address of its status
  Frame& operator=(const Frame&) = delete;

  const Plan& plan() const { return *plan_; }
  // Addresses of the first elements of the caller's row-major tensors, aligned as Plan::inputs and outputs ask.
  // The first run also computes the kept values; after it, none allocates. step_us, if not null: gets the microseconds
  // of each launch, 0 for those that run once.
  Status run(std::span<const void* const> inputs, std::span<void* const> outputs, double* step_us = nullptr);
  // Runs with a span for each launch, and `parts`, by thread: what each thread did for it. A group of launches is one
  // span for each of them, from the begin to the end of the group.
  struct Part {
    uint32_t launch = 0;
    int64_t begin = 0, end = 0;
  };
  using PartLists = std::vector<std::vector<Part>>;
  Status run_traced(std::span<const void* const> inputs, std::span<void* const> outputs, PartLists& parts,
                    RunTrace& trace);
  // The same for debugging: launch by launch, those that run once too, without groups. `after` gets the index of each
  // launch that is over and the addresses of its arguments; its error ends the run.
  Status run_stepwise(std::span<const void* const> inputs, std::span<void* const> outputs,
                      const std::function<Status(std::size_t, void* const*)>& after);
  // The kept values of a Frame that runs no more, whose Plan has them at the same places.
  void take_kept(Frame& from);
  // One task of a phase of a generated launch, on this thread and on the tensors of the last run.
  void run_task(const Launch& launch, const PhaseLaunch& phase, int64_t task) const;

 private:
  struct Fixup {
    uint32_t arg = 0;
    Address to;
  };
  void complete(std::span<const void* const> inputs, std::span<void* const> outputs);
  void place_kept();
  Status make_kept();
  Status run_launches(std::size_t first, std::size_t end, double* step_us);
  void run_kernel(const Launch& launch, const codegen::HostArgs& args) const;
  template <class RunPart>
  void run_group_parts(std::size_t first, const RunPart& run_part) const;
  void run_group(std::size_t first) const;
  void run_group_traced(std::size_t first, PartLists& parts) const;
  Status run_launch_traced(std::size_t index, PartLists& parts);
  Status take_status(const Launch& launch) {
    return launch.checks_status && status_ != 0 ? report_bad_index(launch) : Status();
  }
  Status report_bad_index(const Launch& launch);
  Status run_launch(std::size_t index);
  void copy_outputs(std::span<const void* const> inputs, std::span<void* const> outputs) const;

  std::shared_ptr<const Plan> plan_;
  std::byte* arena_;
  std::byte* locals_;
  HostAllocatorPtr allocator_;
  AlignedBuffer kept_;
  bool has_kept_ = false;  // the launches that run once are done
  int64_t local_stride_;
  int32_t status_ = 0;
  std::vector<void*> args_;
  std::vector<codegen::HostArgs> host_args_;  // by launch
  std::vector<Fixup> fixups_;                 // arguments in the caller's memory
};

}  // namespace fusec::runtime

// SPDX-License-Identifier: Apache-2.0
// One run on a GPU: a Frame has a Plan's launches with the addresses of one session and puts them on a stream in order.
// Staging tells where the caller's tensors are for these launches: where they lie, or in memory of the session on the
// GPU that copies go to and come from.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/device/cuda/handles.h"
#include "runtime/plan/plan.h"
#include "runtime/run/cuda/branches.h"
#include "runtime/run/runner.h"

namespace fusec::runtime::cuda {

// How a tensor gets to the address that the launches use.
enum class TransferPath : uint8_t {
  direct,       // the launches use it where it lies
  from_host,    // through pinned memory
  from_device,  // by a copy on the GPU
};

// One input or output.
class Staged {
 public:
  // Decides by the tensor; memory grows as needed. `copy`: a tensor of the GPU is copied too.
  Status place(const ContextPtr& context, const Tensor& tensor, bool copy, const MemorySource& source);
  // Whether place() would give memory back.
  bool grows_for(const Tensor& tensor, bool copy) const;
  TransferPath path() const { return path_; }
  void* address() const { return address_; }

  // Put on the stream before and after the launches. The host's part of an input is done at once; `again`: it was, for
  // this input.
  Status bring(const Context& context, const Tensor& input, RowMajor& row_major, CUstream stream,
               bool again = false) const;
  Status take_back(const Context& context, const Tensor& output, CUstream stream) const;
  // The host's part of an output, when the stream is done.
  void finish(Tensor& output, RowMajor& row_major) const;

 private:
  TransferPath path_ = TransferPath::direct;
  void* address_ = nullptr;
  DeviceBuffer device_;
  PinnedBuffer host_;
};

// What a run needs beside the caller's tensors; grows to the largest Plan that its owner runs.
struct RunMemory {
  MemorySource source = {};
  DeviceBuffer arena = {};
  // One word per launch that checks indices, set by it when one is out of range. It is memory of the host, which the
  // GPU writes then alone: no run has to clear and to fetch it.
  PinnedBuffer status = {};
  // Makes all large enough; true when an address changed, so that Frames must be made anew.
  Result<bool> reserve(const ContextPtr& context, const Plan& plan);
  // Whether reserve() would change an address.
  bool grows_for(const Plan& plan) const;
};

class Frame {
 public:
  // kept: memory for the plan's kept values. Uploads the constants that only now are known to be read.
  static Result<std::unique_ptr<Frame>> make(ContextPtr context, PlanPtr plan, const RunMemory& memory,
                                             DeviceBuffer kept);

  const Plan& plan() const { return *plan_; }
  // The memory of the kept values, of a Frame that runs no more.
  DeviceBuffer give_kept() { return std::move(kept_); }
  // Puts the launches that run once per plan on the stream, and waits for them. invalid_argument when an index was out
  // of range.
  Status make_kept(CUstream stream);
  // Puts the launches of a run and output copies on the stream: no waiting, no allocation. Addresses are those of the
  // caller's row-major tensors. events, if not empty: one more than launches, recorded before the first and after each.
  Status enqueue(std::span<void* const> inputs, std::span<void* const> outputs, CUstream stream,
                 std::span<const Event> events = {});
  // The same for debugging: launch by launch, those that run once too. The stream is empty when `after` is called.
  Status run_stepwise(std::span<void* const> inputs, std::span<void* const> outputs, CUstream stream,
                      const AfterLaunch& after);
  // The launches alone, without what copies outputs.
  Status enqueue_launches(std::span<void* const> inputs, std::span<void* const> outputs, CUstream stream);
  // One launch by itself, at the addresses of the last run.
  Status enqueue_alone(std::size_t index, CUstream stream);
  bool checks_indices() const { return !checking_.empty(); }
  // After a run is over: invalid_argument when an index was out of range. Clears what it finds.
  Status check_indices();

 private:
  Frame(ContextPtr context, PlanPtr plan, const RunMemory& memory, DeviceBuffer kept);
  Status upload_later();
  Status make_branches();

  struct Fixup {
    uint32_t arg = 0;
    Address to;
  };
  void complete(std::span<void* const> inputs, std::span<void* const> outputs);
  Status enqueue_launch(std::size_t index, CUstream stream);
  Status launch(const Launch& launch, CUstream stream);
  Status launch_phase(const Launch& launch, const PhaseLaunch& phase, CUstream stream);
  Status copy_outputs(std::span<void* const> inputs, std::span<void* const> outputs, CUstream stream);
  void* base(const Address& address, std::span<void* const> inputs, std::span<void* const> outputs) const;

  ContextPtr context_;
  PlanPtr plan_;
  std::span<void* const> constants_;
  std::byte* arena_;
  DeviceBuffer kept_;
  std::span<int32_t> status_;
  Branches branches_;  // for library calls that may run side by side
  std::vector<void*> args_;
  std::vector<Fixup> fixups_;             // arguments in the caller's memory
  std::vector<void*> status_words_;       // by launch
  std::vector<std::size_t> checking_;     // launches that check indices, in the order of their words
  std::vector<void*> params_;             // addresses of the arguments of all launches' functions
  std::vector<std::size_t> first_param_;  // by launch
  // Whether the last work of this run on the stream is a launch, so that one that waits may start before it ends. Other
  // work, and what the caller has put there, need not have waited for what lies before it.
  bool behind_launch_ = false;
};

}  // namespace fusec::runtime::cuda

// SPDX-License-Identifier: Apache-2.0
// What a GPU did in the traced runs of a plan: by CUPTI where it is found, else by events around the launches.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/cuda/cupti.h"
#include "runtime/run/cuda/frame.h"
#include "runtime/run/cuda/match.h"
#include "runtime/run/trace.h"

namespace fusec::runtime::cuda {

class Tracing {
 public:
  // Without CUPTI it has a note.
  Tracing(ContextPtr context, PlanPtr plan);

  bool has_recorder() const { return recorder_ != nullptr; }
  // Runs the launches one by one, at the addresses of the last run, to learn how many kernels each library call starts.
  Status count_kernels(Frame& frame, CUstream stream);
  // Of runs that are over, with the recorder: what the GPU did in each. They were on the stream one behind another, and
  // `traces` has the begin of the first and the end of the last: each of the others ends with its last work.
  Status add_work(std::span<RunTrace> traces);
  // Leaves out what ended since.
  Status skip_work() { return recorder_->take().status(); }
  // Of a run that is over, without: intervals that adjoin, laid before its end.
  void add_intervals(std::span<const double> us, RunTrace& trace) const;
  // Ends the recording.
  void stop() { recorder_.reset(); }
  // What is known of the launches, and the notes.
  Status add_facts(Profile& profile) const;

 private:
  struct Facts {
    int64_t kernels = 0;
    int registers = 0;
    int64_t local_bytes = 0;
  };
  ExpectedLaunch expect(std::size_t launch) const;
  void add_work(std::span<const DeviceWork> works, RunTrace& trace);
  void add_kernel(const DeviceWork& work, int32_t launch, RunTrace& trace);

  ContextPtr context_;
  PlanPtr plan_;
  std::unique_ptr<WorkRecorder> recorder_;
  std::vector<ExpectedLaunch> expected_;
  std::vector<Facts> facts_;  // by launch of the plan: of the last run
  std::vector<std::string> notes_;
  bool is_sure_ = true;
};

}  // namespace fusec::runtime::cuda

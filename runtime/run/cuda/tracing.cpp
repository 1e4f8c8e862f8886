// SPDX-License-Identifier: Apache-2.0
#include "runtime/run/cuda/tracing.h"

#include <algorithm>
#include <cmath>

namespace fusec::runtime::cuda {

Tracing::Tracing(ContextPtr context, PlanPtr plan)
    : context_(std::move(context)), plan_(std::move(plan)), facts_(plan_->launches.size()) {
  Result<std::unique_ptr<WorkRecorder>> recorder = WorkRecorder::start();
  if (recorder.ok()) {
    recorder_ = std::move(*recorder);
  } else {
    notes_.push_back("launches were timed outside of the captured graph: " + recorder.status().message());
  }
  for (std::size_t i = plan_->once; i < plan_->launches.size(); ++i) expected_.push_back(expect(i));
  std::erase_if(expected_, [](const ExpectedLaunch& e) { return e.generated && e.names.empty(); });
}

// The name that the driver knows is that by which the kernel was compiled first. Older drivers do not tell it: then the
// functions are taken to have the name of the kernel in this program.
ExpectedLaunch Tracing::expect(std::size_t index) const {
  const Launch& launch = plan_->launches[index];
  ExpectedLaunch expected{static_cast<int32_t>(index), launch.op == nullptr};
  if (launch.op != nullptr) return expected;
  const ir::Kernel& kernel = plan_->loaded->program.kernels[std::get<ir::KernelStep>(launch.step->v).kernel];
  for (uint32_t p = 0; p < launch.phases; ++p) {
    const PhaseLaunch& phase = plan_->phases[launch.first_phase + p];
    if (phase.iterations == 0) continue;
    const char* name = nullptr;
    const Driver& driver = context_->driver();
    if (driver.cuFuncGetName != nullptr)
      (void)driver.cuFuncGetName(&name, static_cast<CUfunction>(phase.device_function));
    expected.names.push_back(name != nullptr ? name : kernel.name + (launch.phases > 1 ? "_" + std::to_string(p) : ""));
  }
  return expected;
}

Status Tracing::count_kernels(Frame& frame, CUstream stream) {
  FUSEC_TRY(skip_work());
  for (ExpectedLaunch& expected : expected_) {
    FUSEC_TRY(frame.enqueue_alone(static_cast<std::size_t>(expected.launch), stream));
    FUSEC_TRY(context_->check(context_->driver().cuStreamSynchronize(stream), "cuStreamSynchronize"));
    FUSEC_ASSIGN(const std::vector<DeviceWork> works, recorder_->take());
    for (const DeviceWork& work : works) expected.counted += work.kind == DeviceWork::Kind::kernel;
  }
  return {};
}

void Tracing::add_kernel(const DeviceWork& work, int32_t launch, RunTrace& trace) {
  trace.slices.push_back(
      {SliceKind::launch, launch, work.name, "stream " + std::to_string(work.stream), work.begin, work.end});
  trace.spans.push_back({launch, work.begin, work.end});
  if (launch < 0) return;
  Facts& facts = facts_[static_cast<std::size_t>(launch)];
  ++facts.kernels;
  facts.registers = std::max(facts.registers, work.registers);
  facts.local_bytes = std::max(facts.local_bytes, work.local_bytes);
}

// All runs put the same work on the stream, so each has as much of it.
Status Tracing::add_work(std::span<RunTrace> traces) {
  FUSEC_ASSIGN(std::vector<DeviceWork> works, recorder_->take());
  std::erase_if(works, [&](const DeviceWork& w) { return w.device != static_cast<uint32_t>(context_->ordinal()); });
  is_sure_ = is_sure_ && works.size() % traces.size() == 0;
  for (std::size_t r = 0; r < traces.size(); ++r) {
    const std::size_t first = r * works.size() / traces.size(), end = (r + 1) * works.size() / traces.size();
    const std::span<const DeviceWork> of_run(works.data() + first, end - first);
    if (r > 0) traces[r].begin = traces[r - 1].end;
    if (r + 1 < traces.size()) {
      traces[r].end = traces[r].begin;
      for (const DeviceWork& work : of_run) traces[r].end = std::max(traces[r].end, work.end);
      traces[r].end = std::min(traces[r].end, traces.back().end);
    }
    add_work(of_run, traces[r]);
  }
  return {};
}

void Tracing::add_work(std::span<const DeviceWork> works, RunTrace& trace) {
  std::vector<std::string> names;
  for (const DeviceWork& work : works)
    if (work.kind == DeviceWork::Kind::kernel) names.push_back(work.name);
  const MatchedKernels matched = match_kernels(expected_, names);
  is_sure_ = is_sure_ && matched.is_sure;
  std::fill(facts_.begin(), facts_.end(), Facts());
  std::size_t kernel = 0;
  for (const DeviceWork& work : works) {
    if (work.kind == DeviceWork::Kind::kernel) {
      add_kernel(work, matched.launch[kernel++], trace);
      continue;
    }
    const char* const what = work.kind == DeviceWork::Kind::copy ? "copy" : "fill";
    trace.slices.push_back({SliceKind::copy, -1, what, "copies", work.begin, work.end, work.bytes});
    trace.spans.push_back({-1, work.begin, work.end});
  }
}

void Tracing::add_intervals(std::span<const double> us, RunTrace& trace) const {
  double total = 0;
  for (std::size_t i = plan_->once; i < us.size(); ++i) total += us[i];
  int64_t at = std::max<int64_t>(trace.begin, trace.end - std::lround(1e3 * total));
  for (std::size_t i = plan_->once; i < us.size(); ++i) {
    const int64_t end = std::min<int64_t>(trace.end, at + std::lround(1e3 * us[i]));
    const auto launch = static_cast<int32_t>(i);
    trace.spans.push_back({launch, at, end});
    trace.slices.push_back({SliceKind::launch, launch, launch_name(*plan_, plan_->launches[i]), "stream", at, end});
    at = end;
  }
}

Status Tracing::add_facts(Profile& profile) const {
  const Driver& driver = context_->driver();
  for (std::size_t i = plan_->once; i < plan_->launches.size(); ++i) {
    const Launch& launch = plan_->launches[i];
    LaunchProfile& to = profile.launches[i - plan_->once];
    to.kernels = facts_[i].kernels;
    to.registers = facts_[i].registers;
    to.spilled_bytes = facts_[i].local_bytes;
    if (launch.op == nullptr) to.kernels = launch.phases;
    for (uint32_t p = launch.first_phase; p < launch.first_phase + launch.phases; ++p) {
      auto* const function = static_cast<CUfunction>(plan_->phases[p].device_function);
      int registers = 0, local_bytes = 0;
      if (driver.cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function) == CUDA_SUCCESS)
        to.registers = std::max(to.registers, registers);
      if (driver.cuFuncGetAttribute(&local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function) == CUDA_SUCCESS)
        to.spilled_bytes = std::max<int64_t>(to.spilled_bytes, local_bytes);
    }
  }
  profile.notes.insert(profile.notes.end(), notes_.begin(), notes_.end());
  if (!is_sure_) {
    profile.notes.push_back(
        "kernels of library calls that follow one another were told apart by their number, or some kernels were not "
        "found: the times of single launches may be wrong, those of the run are not");
  }
  return {};
}

}  // namespace fusec::runtime::cuda

// SPDX-License-Identifier: Apache-2.0
// Runs a Plan on the CPU: completes the argument table with the caller's addresses, runs the launches in order, each
// phase or group in one parallel region, and copies the outputs that lie in another allocation. The first run starts
// with the launches that run once per plan. It may assume that bind checked all shapes and facts.

#include "runtime/run/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/device/host/process.h"
#include "runtime/threads/parallel.h"

namespace fusec::runtime {
namespace {

int64_t local_stride(const Plan& plan) { return round_up(plan.local_bytes, kAlignment); }

Result<bool> grow(AlignedBuffer& buffer, int64_t bytes, const HostAllocatorPtr& allocator) {
  if (buffer.bytes() >= bytes) return false;
  buffer = AlignedBuffer();  // first give back, so that both never exist at once
  FUSEC_ASSIGN(buffer, AlignedBuffer::make(bytes, allocator));
  return true;
}

// A library call is bound for a fixed number of threads and may wait for all of them, so it cannot run with fewer.
Status too_few(int threads, int wanted) {
  return Status(StatusCode::out_of_memory,
                "only " + std::to_string(threads) + " of " + std::to_string(wanted) +
                    " threads could be started; Options::threads and --threads ask for fewer");
}

const std::byte* at(const void* base, int64_t bytes) { return static_cast<const std::byte*>(base) + bytes; }

}  // namespace

Result<bool> RunMemory::reserve(const Plan& plan) {
  FUSEC_ASSIGN(const bool arena_moved, grow(arena, plan.arena_bytes, allocator));
  FUSEC_ASSIGN(const bool locals_moved, grow(locals, local_stride(plan) * plan.threads, allocator));
  return arena_moved || locals_moved;
}

Frame::Frame(std::shared_ptr<const Plan> plan, const RunMemory& memory)
    : plan_(std::move(plan)),
      arena_(memory.arena.data()),
      locals_(memory.locals.data()),
      allocator_(memory.allocator),
      local_stride_(local_stride(*plan_)),
      args_(plan_->args.size()) {
  for (uint32_t i = 0; i < args_.size(); ++i) {
    const Address& to = plan_->args[i];
    if (to.base == Base::arena) {
      args_[i] = arena_ + to.bytes;
    } else if (to.base == Base::kept) {
      continue;  // make_kept() has the address
    } else if (to.base == Base::constant) {
      // Kernels and libraries only read their inputs.
      args_[i] = const_cast<std::byte*>(at(plan_->loaded->program.constants[to.ordinal].data(), to.bytes));
    } else {
      fixups_.push_back({i, to});
    }
  }
  for (const Launch& launch : plan_->launches) {
    const void* const* externs = launch.kernel != nullptr ? launch.kernel->externs.data() : nullptr;
    host_args_.push_back(
        {args_.data() + launch.first_arg, plan_->extents.data() + launch.first_extent, externs, &status_});
  }
}

void Frame::complete(std::span<const void* const> inputs, std::span<void* const> outputs) {
  for (const Fixup& fixup : fixups_) {
    const void* base = fixup.to.base == Base::input ? inputs[fixup.to.ordinal] : outputs[fixup.to.ordinal];
    args_[fixup.arg] = const_cast<std::byte*>(at(base, fixup.to.bytes));
  }
}

void Frame::run_kernel(const Launch& launch, const codegen::HostArgs& args) const {
  for (uint32_t p = launch.first_phase; p < launch.first_phase + launch.phases; ++p) {
    const PhaseLaunch& phase = plan_->phases[p];
    parallel_for(phase.threads, phase.iterations, [&](int64_t begin, int64_t end, int thread) {
      phase.function(&args, begin, end, locals_ + thread * local_stride_);
    });
  }
}

// Part p of launch l runs on thread (p + number of parts of earlier launches) modulo the threads, so that small
// launches run on different threads. `run_part` is called as run_part(launch, phase, begin, end, thread).
template <class RunPart>
void Frame::run_group_parts(std::size_t first, const RunPart& run_part) const {
  const Launch* const launches = plan_->launches.data() + first;
  const int threads = launches->group_threads;
  parallel_for(threads, threads, [&](int64_t begin, int64_t end, int) {
    for (auto thread = static_cast<int>(begin); thread < end; ++thread) {
      int before = 0;
      for (uint32_t l = 0; l < launches->group_size; ++l) {
        const PhaseLaunch& phase = plan_->phases[launches[l].first_phase];
        const auto parts = static_cast<int>(std::min<int64_t>(phase.threads, phase.iterations));
        for (int part = (thread - before % threads + threads) % threads; part < parts; part += threads) {
          run_part(first + l, phase, part_begin(phase.iterations, parts, part),
                   part_begin(phase.iterations, parts, part + 1), thread);
        }
        before += parts;
      }
    }
  });
}

void Frame::run_group(std::size_t first) const {
  run_group_parts(first, [&](std::size_t index, const PhaseLaunch& phase, int64_t begin, int64_t end, int thread) {
    phase.function(&host_args_[index], begin, end, locals_ + thread * local_stride_);
  });
}

void Frame::run_task(const Launch& launch, const PhaseLaunch& phase, int64_t task) const {
  phase.function(&host_args_[static_cast<std::size_t>(&launch - plan_->launches.data())], task, task + 1, locals_);
}

Status Frame::run_launch(std::size_t index) {
  const Launch& launch = plan_->launches[index];
  if (launch.op != nullptr) {
    return launch.op->run(args_.data() + launch.first_arg, launch.workspace >= 0 ? arena_ + launch.workspace : nullptr,
                          {launch.threads});
  }
  run_kernel(launch, host_args_[index]);
  return take_status(launch);
}

Status Frame::report_bad_index(const Launch& launch) {
  status_ = 0;
  return Status(StatusCode::invalid_argument, "an index is out of range in '" + launch.step->origin + "'");
}

Status Frame::make_kept() {
  if (kept_.data() == nullptr && plan_->kept_bytes > 0) {
    FUSEC_ASSIGN(kept_, AlignedBuffer::make(plan_->kept_bytes, allocator_));
  }
  place_kept();
  FUSEC_TRY(run_launches(0, plan_->once, nullptr));
  has_kept_ = true;
  return {};
}

void Frame::place_kept() {
  for (std::size_t i = 0; i < args_.size(); ++i)
    if (plan_->args[i].base == Base::kept) args_[i] = kept_.data() + plan_->args[i].bytes;
}

void Frame::take_kept(Frame& from) {
  if (!from.has_kept_) return;
  kept_ = std::move(from.kept_);
  place_kept();
  has_kept_ = true;
}

Status Frame::run_launches(std::size_t first, std::size_t end, double* step_us) {
  using Clock = std::chrono::steady_clock;
  for (std::size_t i = first; i < end; ++i) {
    if (plan_->launches[i].group_size > 1 && step_us == nullptr) {
      run_group(i);
      i += plan_->launches[i].group_size - 1;
      continue;
    }
    const Clock::time_point start = step_us != nullptr ? Clock::now() : Clock::time_point();
    Status status = run_launch(i);
    if (!status.ok())
      return std::move(status).with_note("while running step '" + plan_->launches[i].step->origin + "'");
    if (step_us != nullptr) step_us[i] = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  }
  return {};
}

void Frame::copy_outputs(std::span<const void* const> inputs, std::span<void* const> outputs) const {
  for (const OutputCopy& copy : plan_->copies) {
    const void* base = copy.from.base == Base::input    ? inputs[copy.from.ordinal]
                       : copy.from.base == Base::output ? outputs[copy.from.ordinal]
                                                        : plan_->loaded->program.constants[copy.from.ordinal].data();
    if (copy.bytes > 0)
      std::memmove(outputs[copy.output], at(base, copy.from.bytes), static_cast<std::size_t>(copy.bytes));
  }
}

// The launches that run once see constants alone, so that a second time gives the same values.
Status Frame::run_stepwise(std::span<const void* const> inputs, std::span<void* const> outputs,
                           const std::function<Status(std::size_t, void* const*)>& after) {
  const FloatEnv env;
  const Lease lease(plan_->team);
  if (lease.threads() < plan_->team) return too_few(lease.threads(), plan_->team);
  complete(inputs, outputs);
  if (!has_kept_) FUSEC_TRY(make_kept());
  for (std::size_t i = 0; i < plan_->launches.size(); ++i) {
    Status status = run_launch(i);
    if (!status.ok())
      return std::move(status).with_note("while running step '" + plan_->launches[i].step->origin + "'");
    FUSEC_TRY(after(i, args_.data() + plan_->launches[i].first_arg));
  }
  copy_outputs(inputs, outputs);
  return {};
}

Status Frame::run(std::span<const void* const> inputs, std::span<void* const> outputs, double* step_us) {
  const FloatEnv env;
  const Lease lease(plan_->team);
  if (lease.threads() < plan_->team) return too_few(lease.threads(), plan_->team);
  complete(inputs, outputs);
  if (!has_kept_) FUSEC_TRY(make_kept());
  if (step_us != nullptr) std::fill_n(step_us, plan_->once, 0.0);
  FUSEC_TRY(run_launches(plan_->once, plan_->launches.size(), step_us));
  copy_outputs(inputs, outputs);
  return {};
}

// Each thread writes to its own list, which has room for all its parts, so that recording costs two readings of the
// clock.
Status Frame::run_traced(std::span<const void* const> inputs, std::span<void* const> outputs, PartLists& parts,
                         RunTrace& trace) {
  const FloatEnv env;
  const Lease lease(plan_->team);
  if (lease.threads() < plan_->team) return too_few(lease.threads(), plan_->team);
  complete(inputs, outputs);
  if (!has_kept_) FUSEC_TRY(make_kept());
  parts.resize(static_cast<std::size_t>(std::max(plan_->threads, plan_->team)));
  for (std::vector<Part>& list : parts) {
    list.clear();
    list.reserve(plan_->phases.size() + plan_->launches.size());
  }
  trace.spans.reserve(plan_->launches.size());
  for (std::size_t i = plan_->once; i < plan_->launches.size();) {
    const Launch& launch = plan_->launches[i];
    const int64_t begin = now_ns();
    if (launch.group_size > 1) {
      run_group_traced(i, parts);
    } else if (Status status = run_launch_traced(i, parts); !status.ok()) {
      return std::move(status).with_note("while running step '" + launch.step->origin + "'");
    }
    const int64_t end = now_ns();
    for (uint32_t l = 0; l < launch.group_size; ++l) trace.spans.push_back({static_cast<int32_t>(i + l), begin, end});
    i += launch.group_size;
  }
  if (!plan_->copies.empty()) {
    const int64_t begin = now_ns();
    copy_outputs(inputs, outputs);
    trace.spans.push_back({-1, begin, now_ns()});
  }
  return {};
}

Status Frame::run_launch_traced(std::size_t index, PartLists& parts) {
  const Launch& launch = plan_->launches[index];
  if (launch.op != nullptr) return run_launch(index);
  const codegen::HostArgs& args = host_args_[index];
  for (uint32_t p = launch.first_phase; p < launch.first_phase + launch.phases; ++p) {
    const PhaseLaunch& phase = plan_->phases[p];
    parallel_for(phase.threads, phase.iterations, [&](int64_t first, int64_t last, int thread) {
      const int64_t begin = now_ns();
      phase.function(&args, first, last, locals_ + thread * local_stride_);
      parts[static_cast<std::size_t>(thread)].push_back({static_cast<uint32_t>(index), begin, now_ns()});
    });
  }
  return take_status(launch);
}

void Frame::run_group_traced(std::size_t first, PartLists& parts) const {
  run_group_parts(first, [&](std::size_t index, const PhaseLaunch& phase, int64_t from, int64_t to, int thread) {
    const int64_t begin = now_ns();
    phase.function(&host_args_[index], from, to, locals_ + thread * local_stride_);
    parts[static_cast<std::size_t>(thread)].push_back({static_cast<uint32_t>(index), begin, now_ns()});
  });
}

}  // namespace fusec::runtime

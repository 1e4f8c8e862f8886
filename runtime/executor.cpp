// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor.h"

#include <chrono>
#include <cstring>

#include "runtime/device/host/float_env.h"
#include "runtime/parallel.h"

namespace fusec::runtime {
namespace {

int64_t local_stride(const Plan& plan) { return round_up(plan.local_bytes, kAlignment); }

Result<bool> grow(AlignedBuffer& buffer, int64_t bytes) {
  if (buffer.bytes() >= bytes) return false;
  buffer = AlignedBuffer();  // first give back, so that both never exist at once
  FUSEC_ASSIGN(buffer, AlignedBuffer::make(bytes));
  return true;
}

const std::byte* at(const void* base, int64_t bytes) { return static_cast<const std::byte*>(base) + bytes; }

// Libraries run their own code on the team's threads, which copy the host's float settings when they start.
class TeamFloatEnv {
 public:
  explicit TeamFloatEnv(int threads) : threads_(threads), saved_(static_cast<std::size_t>(threads)) {
    parallel_for(threads_, threads_, [this](int64_t, int64_t, int thread) {
      saved_[static_cast<std::size_t>(thread)].emplace();  // in place: this must not throw
    });
  }
  ~TeamFloatEnv() {
    parallel_for(threads_, threads_,
                 [this](int64_t, int64_t, int thread) { saved_[static_cast<std::size_t>(thread)].reset(); });
  }

 private:
  int threads_;
  std::vector<std::optional<FloatEnv>> saved_;
};

}  // namespace

Result<bool> RunMemory::reserve(const Plan& plan) {
  FUSEC_ASSIGN(const bool arena_moved, grow(arena, plan.arena_bytes));
  FUSEC_ASSIGN(const bool locals_moved, grow(locals, local_stride(plan) * plan.threads));
  return arena_moved || locals_moved;
}

Frame::Frame(std::shared_ptr<const Plan> plan, const RunMemory& memory)
    : plan_(std::move(plan)),
      arena_(memory.arena.data()),
      locals_(memory.locals.data()),
      local_stride_(local_stride(*plan_)),
      args_(plan_->args.size()) {
  for (uint32_t i = 0; i < args_.size(); ++i) {
    const Address& to = plan_->args[i];
    if (to.base == Base::arena) {
      args_[i] = arena_ + to.bytes;
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
        {args_.data() + launch.first_arg, plan_->extents.data() + launch.first_extent, externs, nullptr});
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
      const FloatEnv env;
      phase.function(&args, begin, end, locals_ + thread * local_stride_);
    });
  }
}

void Frame::run_task(const Launch& launch, const PhaseLaunch& phase, int64_t task) const {
  phase.function(&host_args_[static_cast<std::size_t>(&launch - plan_->launches.data())], task, task + 1, locals_);
}

Status Frame::run_launch(std::size_t index) {
  const Launch& launch = plan_->launches[index];
  if (launch.op != nullptr) {
    return launch.op->run(args_.data() + launch.first_arg, launch.workspace >= 0 ? arena_ + launch.workspace : nullptr,
                          {plan_->threads});
  }
  host_args_[index].status = &status_;
  run_kernel(launch, host_args_[index]);
  if (launch.checks_status && status_ != 0) {
    status_ = 0;
    return Status(StatusCode::invalid_argument, "an index is out of range in '" + launch.step->origin + "'");
  }
  return {};
}

Status Frame::run(std::span<const void* const> inputs, std::span<void* const> outputs, double* step_us) {
  using Clock = std::chrono::steady_clock;
  const FloatEnv env;
  std::optional<TeamFloatEnv> team;
  if (env.host_differs() && plan_->library > 0 && plan_->threads > 1) team.emplace(plan_->threads);
  const ThreadCount libraries_too(plan_->threads);
  complete(inputs, outputs);
  for (std::size_t i = 0; i < plan_->launches.size(); ++i) {
    const Clock::time_point start = step_us != nullptr ? Clock::now() : Clock::time_point();
    Status status = run_launch(i);
    if (!status.ok())
      return std::move(status).with_note("while running step '" + plan_->launches[i].step->origin + "'");
    if (step_us != nullptr) step_us[i] = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  }
  for (const OutputCopy& copy : plan_->copies) {
    const void* base = copy.from.base == Base::input    ? inputs[copy.from.ordinal]
                       : copy.from.base == Base::output ? outputs[copy.from.ordinal]
                                                        : plan_->loaded->program.constants[copy.from.ordinal].data();
    if (copy.bytes > 0)
      std::memmove(outputs[copy.output], at(base, copy.from.bytes), static_cast<std::size_t>(copy.bytes));
  }
  return {};
}

}  // namespace fusec::runtime

// SPDX-License-Identifier: Apache-2.0
// Enqueues the launches of a Plan on a stream: those that run once when a Frame is made, the others during a run or a
// graph capture. The constructor fills in all addresses in the arena and in the constants; a run only fills in those of
// the caller's tensors. Enqueueing must not allocate or synchronize, because it may be captured.

#include "runtime/run/cuda/frame.h"

#include <algorithm>

#include "runtime/run/cuda/link.h"

namespace fusec::runtime::cuda {
namespace {

constexpr int64_t kWord = sizeof(int32_t);

int64_t checking_launches(const Plan& plan) {
  return std::count_if(plan.launches.begin(), plan.launches.end(), [](const Launch& l) { return l.checks_status; });
}

int64_t status_bytes(const Plan& plan) { return std::max<int64_t>(checking_launches(plan), 1) * kWord; }

Status record(const Context& context, std::span<const Event> events, std::size_t index, CUstream stream) {
  if (events.empty()) return {};
  return context.check(context.driver().cuEventRecord(events[index].get(), stream), "cuEventRecord");
}

}  // namespace

bool RunMemory::grows_for(const Plan& plan) const {
  return plan.arena_bytes > arena.bytes() || status_bytes(plan) > status.bytes();
}

Result<bool> RunMemory::reserve(const ContextPtr& context, const Plan& plan) {
  FUSEC_ASSIGN(const bool arena_moved, grow(arena, context, plan.arena_bytes, source));
  FUSEC_ASSIGN(const bool status_moved, grow(status, context, status_bytes(plan)));
  if (status_moved) std::fill_n(status.data(), status.bytes(), std::byte{0});
  return arena_moved || status_moved;
}

Result<std::unique_ptr<Frame>> Frame::make(ContextPtr context, PlanPtr plan, const RunMemory& memory,
                                           DeviceBuffer kept) {
  std::unique_ptr<Frame> frame(new Frame(std::move(context), std::move(plan), memory, std::move(kept)));
  FUSEC_TRY(frame->upload_later());
  FUSEC_TRY(frame->make_branches());
  return frame;
}

Status Frame::make_branches() {
  std::size_t calls = 1;
  for (const Launch& launch : plan_->launches)
    if (launch.op != nullptr) calls = std::max(calls, launch.op->calls());
  FUSEC_ASSIGN(branches_, Branches::make(context_, calls));
  return {};
}

// Of the constants that link left out, those that a launch reads. Constants without elements have no address.
Status Frame::upload_later() {
  const DeviceConstants& constants = static_cast<const Program&>(*plan_->loaded->device).constants;
  bool uploads = false;
  for (const Launch& launch : plan_->launches) {
    for (uint32_t a = 0; a < launch.args; ++a) {
      const Address& from = plan_->args[launch.first_arg + a];
      if (from.base != Base::constant || constants_[from.ordinal] != nullptr) continue;
      if (constants.shared[from.ordinal] == nullptr) continue;
      if (launch.op != nullptr && !launch.op->reads(a)) continue;
      FUSEC_ASSIGN(void* const memory, constants.shared[from.ordinal]->address(context_));
      args_[launch.first_arg + a] = static_cast<std::byte*>(memory) + from.bytes;
      uploads = true;
    }
  }
  // A copy from pageable memory may return before the device has finished it.
  return uploads ? context_->check(context_->driver().cuStreamSynchronize(nullptr), "cuStreamSynchronize") : Status();
}

Frame::Frame(ContextPtr context, PlanPtr plan, const RunMemory& memory, DeviceBuffer kept)
    : context_(std::move(context)),
      plan_(std::move(plan)),
      constants_(static_cast<const Program&>(*plan_->loaded->device).constants.addresses),
      arena_(memory.arena.data()),
      kept_(std::move(kept)),
      status_(reinterpret_cast<int32_t*>(memory.status.data()),
              static_cast<std::size_t>(memory.status.bytes() / kWord)),
      args_(plan_->args.size()) {
  for (uint32_t i = 0; i < args_.size(); ++i) {
    const Address& to = plan_->args[i];
    if (to.base == Base::input || to.base == Base::output) {
      fixups_.push_back({i, to});
    } else {
      void* const from = base(to, {}, {});
      args_[i] = from != nullptr ? static_cast<std::byte*>(from) + to.bytes : nullptr;
    }
  }
  for (std::size_t i = 0; i < plan_->launches.size(); ++i) {
    status_words_.push_back(&status_[plan_->launches[i].checks_status ? checking_.size() : 0]);
    if (plan_->launches[i].checks_status) checking_.push_back(i);
  }
  for (std::size_t i = 0; i < plan_->launches.size(); ++i) {
    const Launch& launch = plan_->launches[i];
    first_param_.push_back(params_.size());
    if (launch.kernel == nullptr) continue;
    const auto extents = std::get<ir::KernelStep>(launch.step->v).extents.size();
    for (uint32_t a = 0; a < launch.args; ++a) params_.push_back(&args_[launch.first_arg + a]);
    for (std::size_t e = 0; e < extents; ++e)
      params_.push_back(const_cast<int64_t*>(&plan_->extents[launch.first_extent + e]));
    params_.push_back(&status_words_[i]);
  }
}

void* Frame::base(const Address& address, std::span<void* const> inputs, std::span<void* const> outputs) const {
  switch (address.base) {
    case Base::input:
      return inputs[address.ordinal];
    case Base::output:
      return outputs[address.ordinal];
    case Base::constant:
      return constants_[address.ordinal];
    case Base::kept:
      return kept_.data();
    case Base::arena:
      break;
  }
  return arena_;
}

void Frame::complete(std::span<void* const> inputs, std::span<void* const> outputs) {
  for (const Fixup& fixup : fixups_)
    args_[fixup.arg] = static_cast<std::byte*>(base(fixup.to, inputs, outputs)) + fixup.to.bytes;
}

Status Frame::launch_phase(const Launch& launch, const PhaseLaunch& phase, CUstream stream) {
  if (phase.iterations == 0) return {};
  const auto index = static_cast<std::size_t>(&launch - plan_->launches.data());
  CUlaunchAttribute early{};
  early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  early.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config{};
  config.gridDimX = static_cast<unsigned>(phase.iterations);
  config.blockDimX = static_cast<unsigned>(phase.threads);
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = phase.dynamic_shared;
  config.hStream = stream;
  config.attrs = &early;
  config.numAttrs = phase.waits && behind_launch_ ? 1 : 0;
  behind_launch_ = true;
  const CUresult result = context_->driver().cuLaunchKernelEx(&config, static_cast<CUfunction>(phase.device_function),
                                                              &params_[first_param_[index]], nullptr);
  return context_->check(result, "cuLaunchKernelEx");
}

Status Frame::launch(const Launch& launch, CUstream stream) {
  if (launch.op != nullptr) {
    void* const* const args = args_.data() + launch.first_arg;
    const bool is_one = launch.op->calls() == 1;
    behind_launch_ = is_one && launch.op->next_may_start_early();
    if (!is_one) return branches_.run(*launch.op, args, stream);
    return launch.op->run(args, launch.workspace >= 0 ? arena_ + launch.workspace : nullptr, {1, stream});
  }
  for (uint32_t p = launch.first_phase; p < launch.first_phase + launch.phases; ++p) {
    FUSEC_TRY(launch_phase(launch, plan_->phases[p], stream));
  }
  return {};
}

Status Frame::copy_outputs(std::span<void* const> inputs, std::span<void* const> outputs, CUstream stream) {
  for (const OutputCopy& copy : plan_->copies) {
    if (copy.bytes == 0) continue;
    const CUdeviceptr from = address_of(static_cast<std::byte*>(base(copy.from, inputs, outputs)) + copy.from.bytes);
    const CUdeviceptr to = address_of(outputs[copy.output]);
    if (from == to) continue;
    FUSEC_TRY(
        context_->check(context_->driver().cuMemcpyDtoDAsync(to, from, static_cast<std::size_t>(copy.bytes), stream),
                        "cuMemcpyDtoDAsync"));
  }
  return {};
}

Status Frame::enqueue_launch(std::size_t index, CUstream stream) {
  Status status = launch(plan_->launches[index], stream);
  if (status.ok()) return status;
  return std::move(status).with_note("while launching step '" + plan_->launches[index].step->origin + "'");
}

// Runs do not launch these again, so they are checked at once.
Status Frame::make_kept(CUstream stream) {
  if (plan_->once == 0) return {};
  std::fill(status_.begin(), status_.end(), 0);  // no run is under way
  behind_launch_ = false;
  for (std::size_t i = 0; i < plan_->once; ++i) FUSEC_TRY(enqueue_launch(i, stream));
  FUSEC_TRY(context_->check(context_->driver().cuStreamSynchronize(stream), "cuStreamSynchronize"));
  return check_indices();
}

Status Frame::enqueue(std::span<void* const> inputs, std::span<void* const> outputs, CUstream stream,
                      std::span<const Event> events) {
  complete(inputs, outputs);
  behind_launch_ = false;
  FUSEC_TRY(record(*context_, events, 0, stream));
  for (std::size_t i = 0; i < plan_->launches.size(); ++i) {
    if (i >= plan_->once) FUSEC_TRY(enqueue_launch(i, stream));
    if (!events.empty()) behind_launch_ = false;
    FUSEC_TRY(record(*context_, events, i + 1, stream));
  }
  return copy_outputs(inputs, outputs, stream);
}

Status Frame::run_stepwise(std::span<void* const> inputs, std::span<void* const> outputs, CUstream stream,
                           const AfterLaunch& after) {
  complete(inputs, outputs);
  for (std::size_t i = 0; i < plan_->launches.size(); ++i) {
    behind_launch_ = false;
    FUSEC_TRY(enqueue_launch(i, stream));
    Status over = context_->check(context_->driver().cuStreamSynchronize(stream), "cuStreamSynchronize");
    if (!over.ok()) return std::move(over).with_note("while running step '" + plan_->launches[i].step->origin + "'");
    FUSEC_TRY(after(i, args_.data() + plan_->launches[i].first_arg));
  }
  return copy_outputs(inputs, outputs, stream);
}

Status Frame::enqueue_launches(std::span<void* const> inputs, std::span<void* const> outputs, CUstream stream) {
  complete(inputs, outputs);
  behind_launch_ = false;
  for (const Launch& one : plan_->launches) FUSEC_TRY(launch(one, stream));
  return {};
}

Status Frame::enqueue_alone(std::size_t index, CUstream stream) {
  behind_launch_ = false;
  return enqueue_launch(index, stream);
}

Status Frame::check_indices() {
  const auto words = status_.first(checking_.size());
  const auto set = std::find_if(words.begin(), words.end(), [](int32_t word) { return word != 0; });
  if (set == words.end()) return {};
  const std::string& origin = plan_->launches[checking_[static_cast<std::size_t>(set - words.begin())]].step->origin;
  std::fill(status_.begin(), status_.end(), 0);
  return Status(StatusCode::invalid_argument, "an index is out of range in '" + origin + "'")
      .with_note("while running step '" + origin + "'");
}

}  // namespace fusec::runtime::cuda

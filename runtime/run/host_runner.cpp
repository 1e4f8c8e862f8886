// SPDX-License-Identifier: Apache-2.0
// Runs Plans on the CPU for a Session: uses the caller's tensors in place where they are row-major and aligned, and
// stages the others through its own memory. An output that overlaps an input which is read later is staged too.

#include <utility>

#include "runtime/device/host/memory.h"
#include "runtime/run/executor.h"
#include "runtime/run/runner.h"

namespace fusec::runtime {
namespace {

struct HostState final : PlanState {
  explicit HostState(PlanPtr p) : plan(std::move(p)) {}
  PlanPtr plan;
  std::unique_ptr<Frame> frame;
  uint64_t generation = 0;  // of the memory that the frame holds addresses of
};

Result<void*> staging(AlignedBuffer& buffer, const Tensor& tensor, const HostAllocatorPtr& allocator) {
  const auto bytes = static_cast<int64_t>(tensor.bytes());
  if (buffer.bytes() < bytes) {
    FUSEC_ASSIGN(buffer, AlignedBuffer::make(bytes, allocator));
  }
  return static_cast<void*>(buffer.data());
}

Status not_here(const char* kind, const BoundIo& io) {
  return Status(StatusCode::invalid_argument,
                std::string(kind) + " '" + io.name + "' lies on a GPU, the Engine runs on the CPU");
}

class HostRunner final : public Runner {
 public:
  HostRunner(const ir::Program& program, HostAllocatorPtr allocator)
      : Runner(program),
        memory_{std::move(allocator)},
        in_(program.inputs.size()),
        out_(program.outputs.size()),
        in_staging_(in_.size()),
        out_staging_(out_.size()) {}

  Result<std::unique_ptr<PlanState>> prepare(const PlanPtr& plan) override {
    auto state = std::make_unique<HostState>(plan);
    FUSEC_TRY(renew(*state));
    return std::unique_ptr<PlanState>(std::move(state));
  }

  Result<bool> replace(std::unique_ptr<PlanState>& state, const PlanPtr& plan) override {
    auto next = std::make_unique<HostState>(plan);
    FUSEC_TRY(renew(*next));
    if (plan->keeps_alike) next->frame->take_kept(*static_cast<HostState&>(*state).frame);
    state = std::move(next);
    return true;
  }

  Status run(PlanState& state, std::span<const Tensor> inputs, std::span<Tensor> outputs, double* step_us) override {
    auto& own = static_cast<HostState&>(state);
    if (own.generation != generation_) FUSEC_TRY(renew(own));
    FUSEC_TRY(take_inputs(*own.plan, inputs));
    FUSEC_TRY(take_outputs(*own.plan, inputs, outputs));
    FUSEC_TRY(own.frame->run(in_, out_, step_us));
    give_outputs(outputs);
    return {};
  }

  Status run_stepwise(PlanState& state, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                      const AfterLaunch& after) override {
    auto& own = static_cast<HostState&>(state);
    if (own.generation != generation_) FUSEC_TRY(renew(own));
    FUSEC_TRY(take_inputs(*own.plan, inputs));
    FUSEC_TRY(take_outputs(*own.plan, inputs, outputs));
    FUSEC_TRY(own.frame->run_stepwise(in_, out_, after));
    give_outputs(outputs);
    return {};
  }

  Result<std::string> begin_tracing(PlanState& state) override {
    auto& own = static_cast<HostState&>(state);
    if (own.generation != generation_) FUSEC_TRY(renew(own));
    return std::string("threads");
  }

  Status run_traced(PlanState& state, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                    std::span<RunTrace> traces) override {
    RunTrace& trace = traces.front();
    auto& own = static_cast<HostState&>(state);
    if (own.generation != generation_) FUSEC_TRY(renew(own));
    FUSEC_TRY(take_inputs(*own.plan, inputs));
    FUSEC_TRY(take_outputs(*own.plan, inputs, outputs));
    FUSEC_TRY(own.frame->run_traced(in_, out_, parts_, trace));
    give_outputs(outputs);
    trace.end = now_ns();
    add_slices(*own.plan, trace);
    return {};
  }

  Status run_async(PlanState& state, std::span<const Tensor> inputs, std::span<Tensor> outputs, void*) override {
    return run(state, inputs, outputs, nullptr);
  }

  Status bind(PlanState& state, std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    return take_outputs(*static_cast<HostState&>(state).plan, inputs, outputs);
  }

  int64_t arena_bytes() const override { return memory_.arena.bytes(); }

 private:
  Status renew(HostState& state) {
    const Result<bool> moved = memory_.reserve(*state.plan);
    if (!moved.ok() || *moved) ++generation_;
    FUSEC_TRY(moved.status());
    state.frame = std::make_unique<Frame>(state.plan, memory_);
    state.generation = generation_;
    return {};
  }

  Status take_inputs(const Plan& plan, std::span<const Tensor> inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& t = inputs[i];
      if (!t.on_host()) return not_here("input", plan.inputs[i]);
      in_[i] = t.data();
      const bool aligned = is_aligned(t.data(), plan.inputs[i].alignment), contiguous = t.is_contiguous();
      if ((aligned && contiguous) || t.num_elements() == 0) continue;
      FUSEC_ASSIGN(void* staged, staging(in_staging_[i], t, memory_.allocator));
      strided_copy(staged, row_major_.strides(t.shape()), t.data(), t.strides(), t.shape(),
                   static_cast<int64_t>(size_of(t.dtype())));
      in_[i] = staged;
      log_.add(i, "input", plan.inputs[i], contiguous ? "it is not aligned" : "it is not row-major");
    }
    return {};
  }

  Status take_outputs(const Plan& plan, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
    for (uint32_t o = 0; o < outputs.size(); ++o) {
      FUSEC_TRY(take_output(plan.outputs[o], outputs[o], {Device{}, memory_.allocator}));
      if (!outputs[o].on_host()) return not_here("output", plan.outputs[o]);
      FUSEC_TRY(place_output(plan, inputs, outputs[o], o));
    }
    return {};
  }

  Status place_output(const Plan& plan, std::span<const Tensor> inputs, Tensor& t, uint32_t o) {
    const BoundIo& io = plan.outputs[o];
    out_[o] = t.data();
    if (t.num_elements() == 0) return {};
    const bool aligned = is_aligned(t.data(), io.alignment), contiguous = t.is_contiguous();
    if (aligned && contiguous && !clobbers_input(plan, inputs, t, o)) return {};
    FUSEC_ASSIGN(out_[o], staging(out_staging_[o], t, memory_.allocator));
    log_.add(in_.size() + o, "output", io,
             !contiguous ? "it is not row-major"
             : !aligned  ? "it is not aligned"
                         : "an input that lies there is read later");
    return {};
  }

  void give_outputs(std::span<Tensor> outputs) {
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      Tensor& t = outputs[o];
      if (out_[o] == t.data()) continue;
      strided_copy(t.data(), t.strides(), out_[o], row_major_.strides(t.shape()), t.shape(),
                   static_cast<int64_t>(size_of(t.dtype())));
    }
  }

  // Launches of one group ran side by side: the time of each weighs as much as its parts took. The group is one slice.
  void add_slices(const Plan& plan, RunTrace& trace) const {
    std::vector<double> busy(plan.launches.size());
    for (std::size_t t = 0; t < parts_.size(); ++t) {
      for (const Frame::Part& part : parts_[t]) {
        busy[part.launch] += static_cast<double>(part.end - part.begin);
        trace.slices.push_back({SliceKind::part, static_cast<int32_t>(part.launch),
                                launch_name(plan, plan.launches[part.launch]), "thread " + std::to_string(t),
                                part.begin, part.end});
      }
    }
    for (std::size_t s = 0; s < trace.spans.size(); ++s) {
      TraceSpan& span = trace.spans[s];
      if (span.launch < 0) {
        trace.slices.push_back({SliceKind::copy, -1, "copy outputs", "launches", span.begin, span.end});
        continue;
      }
      const Launch* const launches = &plan.launches[static_cast<std::size_t>(span.launch)];
      const bool goes_on = s > 0 && trace.spans[s - 1].launch >= 0 && trace.spans[s - 1].begin == span.begin;
      if (launches->group_size > 1 || goes_on) span.weight = busy[static_cast<std::size_t>(span.launch)];
      if (goes_on) continue;
      std::string name = launch_name(plan, *launches);
      for (uint32_t l = 1; l < launches->group_size; ++l) name += " | " + launch_name(plan, launches[l]);
      trace.slices.push_back({SliceKind::launch, span.launch, std::move(name), "launches", span.begin, span.end});
    }
  }

  RunMemory memory_;
  Frame::PartLists parts_;  // of the traced run
  uint64_t generation_ = 0;
  RowMajor row_major_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
  std::vector<AlignedBuffer> in_staging_, out_staging_;
};

}  // namespace

std::unique_ptr<Runner> make_host_runner(const ir::Program& program, HostAllocatorPtr allocator) {
  return std::make_unique<HostRunner>(program, std::move(allocator));
}

}  // namespace fusec::runtime

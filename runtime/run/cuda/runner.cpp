// SPDX-License-Identifier: Apache-2.0
// Runs Plans on a GPU for a Session: decides for each tensor whether it is used in place or staged, and launches the
// plan directly or as a captured graph. All runs of a session share one arena, so work on different streams is ordered
// by an event.

#include <algorithm>
#include <utility>

#include "fusec/device.h"
#include "runtime/cache/artifact.h"
#include "runtime/device/cuda/handles.h"
#include "runtime/run/cuda/frame.h"
#include "runtime/run/cuda/link.h"
#include "runtime/run/cuda/tracing.h"

namespace fusec::runtime::cuda {
namespace {

// After this many consecutive runs with the same pointers, the runner assumes that they no longer rotate.
constexpr int kSettled = 4;

struct State final : PlanState {
  PlanPtr plan;
  std::shared_ptr<Frame> frame;
  GraphCache graphs;
  uint64_t generation = 0;         // of the memory that frame and graphs hold addresses of
  bool capturable = true;          // false: a capture failed
  bool staging_pays = false;       // copying rotating tensors to fixed memory costs less than launching one by one
  bool fixed = false;              // tensors are copied to fixed memory, because the caller's pointers rotate
  std::vector<const void*> given;  // the caller's pointers of the last run
  int same_in_a_row = 0;
};

// Whether copying all inputs and outputs costs less than the launch overhead that a graph saves.
bool staging_pays(const Plan& plan, const MachineModel& machine) {
  double bytes = 0;
  for (const auto* list : {&plan.inputs, &plan.outputs}) {
    for (const BoundIo& io : *list) {
      double one = static_cast<double>(size_of(io.dtype));
      for (int64_t extent : io.shape) one *= static_cast<double>(extent);
      bytes += 2 * one;  // read and written
    }
  }
  const double copies = machine.launch * static_cast<double>(plan.inputs.size() + plan.outputs.size()) +
                        bytes / (1e3 * machine.memory_copy);
  return copies < machine.launch * static_cast<double>(plan.launches.size() - plan.once);
}

class GpuRunner final : public Runner {
 public:
  GpuRunner(const ir::Program& program, ContextPtr context, Stream stream, Event done, const Options& options,
            const MachineModel& machine)
      : Runner(program),
        machine_(machine),
        context_(std::move(context)),
        stream_(std::move(stream)),
        done_(std::move(done)),
        device_{TargetKind::cuda, context_->ordinal()},
        graphs_wanted_(options.cuda_graph),
        warn_(make_warn(options)),
        memory_{{options.allocator, stream_.get()}},
        in_staged_(program.inputs.size()),
        out_staged_(program.outputs.size()),
        in_(program.inputs.size()),
        out_(program.outputs.size()) {}
  ~GpuRunner() override { (void)settle(); }

  Result<std::unique_ptr<PlanState>> prepare(const PlanPtr& plan) override {
    FUSEC_TRY(context_->alive());
    const Current current(*context_);
    FUSEC_TRY(current.status());
    auto state = std::make_unique<State>();
    state->plan = plan;
    state->staging_pays = staging_pays(*plan, machine_);
    FUSEC_TRY(renew(*state));
    return std::unique_ptr<PlanState>(std::move(state));
  }

  // Work on a stream of the caller may still use the old state, which is then kept until it is over.
  Result<bool> replace(std::unique_ptr<PlanState>& state, const PlanPtr& plan) override {
    FUSEC_TRY(context_->alive());
    const Current current(*context_);
    FUSEC_TRY(current.status());
    auto& old = static_cast<State&>(*state);
    const bool keeps = plan->keeps_alike && old.frame != nullptr;
    if (pending_ && (!keeps || memory_.grows_for(*plan))) return false;
    if (is_recorded(old)) return false;  // the caller's graph has the kept values
    auto next = std::make_unique<State>();
    next->plan = plan;
    next->staging_pays = staging_pays(*plan, machine_);
    FUSEC_TRY(reserve(*plan));
    if (keeps) {
      DeviceBuffer kept = old.frame->give_kept();
      old.frame.reset();  // it would be made anew
      FUSEC_ASSIGN(next->frame, Frame::make(context_, plan, memory_, std::move(kept)));
      next->generation = generation_;
    } else {
      FUSEC_TRY(renew(*next));
    }
    if (pending_) retired_.push_back(std::move(state));
    state = std::move(next);
    return true;
  }

  Status run(PlanState& state, std::span<const Tensor> inputs, std::span<Tensor> outputs, double* step_us) override {
    std::vector<Event> events;
    return run_as(
        state, inputs, outputs,
        [&](State& own) -> Status {
          if (step_us != nullptr) {
            FUSEC_ASSIGN(events, make_events(own.plan->launches.size() + 1));
          }
          return enqueue(own, inputs, outputs, stream_.get(), events);
        },
        [&] { return step_us != nullptr ? read_events(events, step_us) : Status(); });
  }

  Status run_stepwise(PlanState& state, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                      const AfterLaunch& after) override {
    return run_as(state, inputs, outputs, [&](State& own) -> Status {
      for (std::size_t i = 0; i < inputs.size(); ++i)
        FUSEC_TRY(in_staged_[i].bring(*context_, inputs[i], row_major_, stream_.get()));
      FUSEC_TRY(own.frame->run_stepwise(in_, out_, stream_.get(), after));
      for (std::size_t o = 0; o < outputs.size(); ++o)
        FUSEC_TRY(out_staged_[o].take_back(*context_, outputs[o], stream_.get()));
      return {};
    });
  }

  // Graphs are captured anew while CUPTI records, and once more when it no longer does.
  Result<std::string> begin_tracing(PlanState& state) override {
    FUSEC_TRY(context_->alive());
    const Current current(*context_);
    FUSEC_TRY(current.status());
    auto& own = static_cast<State&>(state);
    FUSEC_TRY(enter(own));
    tracing_ = std::make_unique<Tracing>(context_, own.plan);
    if (!tracing_->has_recorder()) return std::string("events");
    own.graphs.clear();
    if (Status status = tracing_->count_kernels(*own.frame, stream_.get()); !status.ok()) {
      tracing_->stop();
      return status;
    }
    return std::string("cupti");
  }

  Status run_traced(PlanState& state, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                    std::span<RunTrace> traces) override {
    if (!tracing_->has_recorder()) {
      RunTrace& trace = traces.front();
      std::vector<double> us(static_cast<State&>(state).plan->launches.size());
      FUSEC_TRY(run(state, inputs, outputs, us.data()));
      trace.end = now_ns();
      tracing_->add_intervals(us, trace);
      return {};
    }
    int64_t at = traces.front().begin;
    const auto note = [&](const char* what, RunTrace& trace) {
      const int64_t now = now_ns();
      trace.slices.push_back({SliceKind::host, -1, what, "host", std::exchange(at, now), now});
    };
    std::vector<Event> events;
    double device_us = 0;
    const auto end_run = [&] {
      note("wait", traces.back());
      traces.back().end = at;
      return traces.size() > 1 ? read_events(events, &device_us) : Status();
    };
    FUSEC_TRY(run_as(
        state, inputs, outputs,
        [&](State& own) -> Status {
          if (traces.size() > 1) {
            FUSEC_ASSIGN(events, make_events(2));
          }
          for (std::size_t i = 0; i < traces.size(); ++i) {
            FUSEC_TRY(enqueue(own, inputs, outputs, stream_.get(), {}, i > 0));
            if (i == 0 && traces.size() > 1) FUSEC_TRY(mark(events[0]));
            note("enqueue", traces[i]);
          }
          return traces.size() > 1 ? mark(events[1]) : Status();
        },
        end_run));
    FUSEC_TRY(tracing_->add_work(traces));
    if (traces.size() > 1) {
      device_us /= static_cast<double>(traces.size() - 1);
    } else {
      FUSEC_ASSIGN(device_us, run_device_us(state, inputs, outputs));
      FUSEC_TRY(tracing_->skip_work());
    }
    for (RunTrace& trace : traces) trace.device_us = device_us;
    return {};
  }

  std::size_t traced_at_once(const RunTrace& trace) const override {
    constexpr int64_t kLong = 500'000;  // nanoseconds; the host takes less for a graph that is traced
    constexpr std::size_t kAtOnce = 8;
    if (!tracing_->has_recorder() || trace.spans.empty()) return 1;
    int64_t end = 0;
    for (const TraceSpan& span : trace.spans) end = std::max(end, span.end);
    return end - trace.spans.front().begin < kLong ? 1 : kAtOnce;
  }

  // The events lie round the second of two runs: the first keeps the GPU busy while the host puts the second on the
  // stream.
  Result<double> run_device_us(PlanState& state, std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    std::vector<Event> events;
    double us = 0;
    FUSEC_TRY(run_as(
        state, inputs, outputs,
        [&](State& own) -> Status {
          FUSEC_ASSIGN(events, make_events(2));
          FUSEC_TRY(enqueue(own, inputs, outputs, stream_.get(), {}));
          FUSEC_TRY(mark(events[0]));
          FUSEC_TRY(enqueue(own, inputs, outputs, stream_.get(), {}, true));
          return mark(events[1]);
        },
        [&] { return read_events(events, &us); }));
    return us;
  }

  bool traces_beside_runs() const override { return !tracing_->has_recorder(); }

  Status end_tracing(PlanState& state) override {
    if (tracing_ == nullptr || !tracing_->has_recorder()) return {};
    const Current current(*context_);
    FUSEC_TRY(current.status());
    static_cast<State&>(state).graphs.clear();
    tracing_->stop();
    return {};
  }

  Status add_facts(const PlanState&, Profile& profile) override {
    const Current current(*context_);
    FUSEC_TRY(current.status());
    return tracing_->add_facts(profile);
  }

  Status run_async(PlanState& state, std::span<const Tensor> inputs, std::span<Tensor> outputs, void* stream) override {
    FUSEC_TRY(context_->alive());
    const Current current(*context_);
    FUSEC_TRY(current.status());
    auto& own = static_cast<State&>(state);
    FUSEC_TRY(enter(own));
    FUSEC_TRY(check_on_device(*own.plan, inputs, outputs));
    auto* const theirs = static_cast<CUstream>(stream);
    FUSEC_TRY(place(own, inputs, outputs, theirs));
    FUSEC_TRY(order_after_pending(theirs));
    const Status enqueued = enqueue(own, inputs, outputs, theirs, {});
    const Status marked = context_->check(driver().cuEventRecord(done_.get(), theirs), "cuEventRecord");
    pending_ = true;
    unread_ = unread_ || own.frame->checks_indices();
    pending_stream_ = theirs;
    FUSEC_TRY(enqueued);
    return marked;
  }

  Result<bool> is_capturing(void* stream) const override {
    FUSEC_TRY(context_->alive());
    const Current current(*context_);
    FUSEC_TRY(current.status());
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    FUSEC_TRY(
        context_->check(driver().cuStreamIsCapturing(static_cast<CUstream>(stream), &status), "cuStreamIsCapturing"));
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
  }

  Status record(PlanState& state, std::span<const Tensor> inputs, std::span<Tensor> outputs, void* stream) override {
    FUSEC_TRY(context_->alive());
    const Current current(*context_);
    FUSEC_TRY(current.status());
    auto& own = static_cast<State&>(state);
    const Plan& plan = *own.plan;
    if (own.frame == nullptr || own.generation != generation_) {
      return Status(StatusCode::invalid_argument,
                    "other shapes have moved the memory of this session; prepare these again before the capture");
    }
    FUSEC_TRY(check_on_device(plan, inputs, outputs));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (const char* why = reason_to_copy(plan.inputs[i], inputs[i])) return no_copy("input", plan.inputs[i], why);
      in_[i] = const_cast<void*>(inputs[i].data());
    }
    for (uint32_t o = 0; o < outputs.size(); ++o) {
      if (outputs[o].data() == nullptr && outputs[o].num_elements() > 0)
        return no_copy("output", plan.outputs[o], "it has no memory");
      FUSEC_TRY(take_output(plan.outputs[o], outputs[o], {device_}));
      const char* why = reason_to_copy(plan.outputs[o], outputs[o]);
      if (why == nullptr && clobbers_input(plan, inputs, outputs[o], o)) why = "an input that lies there is read later";
      if (why != nullptr) return no_copy("output", plan.outputs[o], why);
      out_[o] = outputs[o].data();
    }
    if (!is_recorded(own)) recorded_.push_back(own.frame);
    return own.frame->enqueue(in_, out_, static_cast<CUstream>(stream));
  }

  Status bind(PlanState& state, std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    FUSEC_TRY(context_->alive());
    const Current current(*context_);
    FUSEC_TRY(current.status());
    auto& own = static_cast<State&>(state);
    FUSEC_TRY(enter(own));
    FUSEC_TRY(place(own, inputs, outputs, stream_.get()));
    if (!graphs_wanted_ || !own.capturable) return {};
    GraphCache::Entry* entry = own.graphs.find(in_, out_);
    if (entry == nullptr) entry = &own.graphs.add(in_, out_);
    return entry->graph ? Status() : capture(own, *entry);
  }

  int64_t arena_bytes() const override { return memory_.arena.bytes(); }
  bool is_recorded() const override { return !recorded_.empty(); }

  void count(SessionStats& stats) const override {
    Runner::count(stats);
    stats.captured_graphs = captured_;
    stats.replayed_graphs = replayed_;
  }

 private:
  const Driver& driver() const { return context_->driver(); }

  // `put` puts the work on the stream. `read`: what is done when it is over.
  template <class Put, class Read>
  Status run_as(PlanState& state, std::span<const Tensor> inputs, std::span<Tensor> outputs, const Put& put,
                const Read& read) {
    FUSEC_TRY(context_->alive());
    const Current current(*context_);
    FUSEC_TRY(current.status());
    auto& own = static_cast<State&>(state);
    FUSEC_TRY(enter(own));
    FUSEC_TRY(place(own, inputs, outputs, stream_.get()));
    const bool checks_indices = own.frame->checks_indices();
    if (checks_indices) FUSEC_TRY(forget_bad_indices());
    unread_ = unread_ || checks_indices;  // until the end, which a run that fails does not reach
    const Status enqueued = put(own);
    const Status waited = wait();  // also after a failure: what was enqueued uses the caller's memory
    FUSEC_TRY(enqueued);
    FUSEC_TRY(waited);
    FUSEC_TRY(read());
    for (std::size_t o = 0; o < outputs.size(); ++o) out_staged_[o].finish(outputs[o], row_major_);
    if (!checks_indices) return {};
    unread_ = false;
    return own.frame->check_indices();
  }
  template <class Put>
  Status run_as(PlanState& state, std::span<const Tensor> inputs, std::span<Tensor> outputs, const Put& put) {
    return run_as(state, inputs, outputs, put, [] { return Status(); });
  }

  // Clears status words of earlier runs that nobody has read: on a stream of the caller, or failed.
  Status forget_bad_indices() {
    if (!unread_ && recorded_.empty()) return {};
    FUSEC_TRY(order_after_pending(stream_.get()));
    unread_ = false;
    const auto words = static_cast<std::size_t>(memory_.status.bytes()) / sizeof(int32_t);
    return context_->check(driver().cuMemsetD32Async(memory_.status.address(), 0, words, stream_.get()),
                           "cuMemsetD32Async");
  }

  // Memory, the kept values and a Frame for the plan.
  Status renew(State& state) {
    FUSEC_TRY(settle());
    state.graphs.clear();
    state.frame.reset();
    FUSEC_TRY(reserve(*state.plan));
    DeviceBuffer kept;
    FUSEC_TRY(grow(kept, context_, state.plan->kept_bytes, memory_.source).status());
    FUSEC_ASSIGN(std::unique_ptr<Frame> frame, Frame::make(context_, state.plan, memory_, std::move(kept)));
    FUSEC_TRY(frame->make_kept(stream_.get()));
    state.frame = std::move(frame);
    state.generation = generation_;
    return {};
  }

  // What graphs of the caller have addresses of stays.
  Status reserve(const Plan& plan) {
    if (!recorded_.empty() && memory_.grows_for(plan))
      recorded_memory_.push_back(std::exchange(memory_, {memory_.source}));
    const Result<bool> moved = memory_.reserve(context_, plan);
    if (!moved.ok() || *moved) ++generation_;
    return moved.status();
  }

  bool is_recorded(const State& state) const {
    return std::find(recorded_.begin(), recorded_.end(), state.frame) != recorded_.end();
  }

  Status enter(State& state) {
    return state.frame != nullptr && state.generation == generation_ ? Status() : renew(state);
  }

  // Waits for the work on the caller's stream that was used last.
  Status settle() {
    if (!pending_) return {};
    pending_ = false;
    const Current current(*context_);
    FUSEC_TRY(current.status());
    FUSEC_TRY(context_->check(driver().cuEventSynchronize(done_.get()), "cuEventSynchronize"));
    retired_.clear();
    return {};
  }

  // Orders this stream after pending work on another stream, because both use the same arena.
  Status order_after_pending(CUstream stream) {
    if (!pending_ || pending_stream_ == stream) return {};
    return context_->check(driver().cuStreamWaitEvent(stream, done_.get(), 0), "cuStreamWaitEvent");
  }

  Status wait() {
    pending_ = false;
    Status status = context_->check(driver().cuStreamSynchronize(stream_.get()), "cuStreamSynchronize");
    if (status.ok()) retired_.clear();
    if (status.ok() || context_->alive().ok()) return status;
    return std::move(status).with_note(
        "a step of the run failed; CUDA_LAUNCH_BLOCKING=1 without a CUDA graph shows which");
  }

  Status not_here(const char* kind, const BoundIo& io, const Tensor& t) const {
    return Status(StatusCode::invalid_argument, std::string(kind) + " '" + io.name + "' lies on " +
                                                    to_string(t.device()) + ", the Engine runs on " + context_->name());
  }

  static Status no_copy(const char* kind, const BoundIo& io, const char* why) {
    return Status(StatusCode::invalid_argument, std::string(kind) + " '" + io.name +
                                                    "' cannot be used where it lies (" + why +
                                                    "), and a run that is captured makes and copies nothing");
  }

  Status check_on_device(const Plan& plan, std::span<const Tensor> inputs, std::span<const Tensor> outputs) const {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].device() != device_) return not_here("input", plan.inputs[i], inputs[i]);
    }
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      if (outputs[o].device() != device_ && outputs[o].data() != nullptr)
        return not_here("output", plan.outputs[o], outputs[o]);
    }
    return {};
  }

  // Outputs that the caller does not give are made on the GPU if any input lies there, else on the host.
  Device output_device(std::span<const Tensor> inputs) const {
    const bool here = std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return !t.on_host(); });
    return here ? device_ : Device{};
  }

  // Decides where the launches find every tensor.
  Status place(State& state, std::span<const Tensor> inputs, std::span<Tensor> outputs, CUstream stream) {
    const Plan& plan = *state.plan;
    const OutputMemory made_on{output_device(inputs), memory_.source.allocator, stream};
    for (std::size_t o = 0; o < outputs.size(); ++o) FUSEC_TRY(take_output(plan.outputs[o], outputs[o], made_on));
    const bool fixed = rotates(state, inputs, outputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].on_host() && inputs[i].device() != device_) return not_here("input", plan.inputs[i], inputs[i]);
      const char* const why = reason_to_copy(plan.inputs[i], inputs[i]);
      FUSEC_TRY(place_one(in_staged_[i], inputs[i], why != nullptr || fixed));
      if (why != nullptr && in_staged_[i].path() == TransferPath::from_device)
        log_.add(i, "input", plan.inputs[i], why);
      in_[i] = in_staged_[i].address();
    }
    for (uint32_t o = 0; o < outputs.size(); ++o) {
      if (!outputs[o].on_host() && outputs[o].device() != device_)
        return not_here("output", plan.outputs[o], outputs[o]);
      const char* why = reason_to_copy(plan.outputs[o], outputs[o]);
      if (why == nullptr && clobbers_input(plan, inputs, outputs[o], o)) why = "an input that lies there is read later";
      FUSEC_TRY(place_one(out_staged_[o], outputs[o], why != nullptr || fixed));
      if (why != nullptr && out_staged_[o].path() == TransferPath::from_device)
        log_.add(in_.size() + o, "output", plan.outputs[o], why);
      out_[o] = out_staged_[o].address();
    }
    return {};
  }

  // Growing frees memory that pending work on the caller's stream may still use, so it waits for that work first.
  Status place_one(Staged& staged, const Tensor& tensor, bool copy) {
    if (pending_ && staged.grows_for(tensor, copy)) FUSEC_TRY(settle());
    return staged.place(context_, tensor, copy, memory_.source);
  }

  static const char* reason_to_copy(const BoundIo& io, const Tensor& t) {
    if (!t.is_contiguous()) return "it is not row-major";
    return is_aligned(t.data(), io.alignment) ? nullptr : "it is not aligned";
  }

  // Whether the caller's pointers change too often for graphs, so that copies to fixed memory are better.
  bool rotates(State& state, std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
    if (!state.fixed && !(graphs_wanted_ && state.staging_pays && state.graphs.rotating())) return false;
    state.fixed = true;
    bool same = state.given.size() == inputs.size() + outputs.size();
    state.given.resize(inputs.size() + outputs.size());
    std::size_t at = 0;
    const auto look = [&](const void* data) {
      same = same && state.given[at] == data;
      state.given[at++] = data;
    };
    for (const Tensor& t : inputs) look(t.data());
    for (const Tensor& t : outputs) look(t.data());
    state.same_in_a_row = same ? state.same_in_a_row + 1 : 0;
    if (state.same_in_a_row < kSettled) return true;
    state.graphs.settle_down();
    state.same_in_a_row = 0;
    state.fixed = false;
    return false;
  }

  // again: behind another run with the same inputs.
  Status enqueue(State& state, std::span<const Tensor> inputs, std::span<Tensor> outputs, CUstream stream,
                 std::span<const Event> events, bool again = false) {
    if (stream == stream_.get()) FUSEC_TRY(order_after_pending(stream));
    for (std::size_t i = 0; i < inputs.size(); ++i)
      FUSEC_TRY(in_staged_[i].bring(*context_, inputs[i], row_major_, stream, again));
    FUSEC_TRY(events.empty() ? launch(state, stream) : state.frame->enqueue(in_, out_, stream, events));
    for (std::size_t o = 0; o < outputs.size(); ++o) FUSEC_TRY(out_staged_[o].take_back(*context_, outputs[o], stream));
    return {};
  }

  // Enqueues all launches of the plan, as one graph from the second run with the same addresses on.
  Status launch(State& state, CUstream stream) {
    if (!graphs_wanted_ || !state.capturable) return state.frame->enqueue(in_, out_, stream);
    GraphCache::Entry* const entry = state.graphs.find(in_, out_);
    if (entry == nullptr) {
      state.graphs.add(in_, out_);
      return state.frame->enqueue(in_, out_, stream);
    }
    if (!entry->graph) FUSEC_TRY(capture(state, *entry));
    if (!entry->graph) return state.frame->enqueue(in_, out_, stream);
    ++replayed_;
    return context_->check(driver().cuGraphLaunch(entry->graph.get(), stream), "cuGraphLaunch");
  }

  // If the plan cannot be captured, this returns ok without a graph: the plan then runs on the stream, with one
  // warning.
  Status capture(State& state, GraphCache::Entry& entry) {
    Status status = capture_into(*state.frame, entry.graph);
    captured_ += status.ok();
    if (status.ok() || !context_->alive().ok()) return status;
    state.capturable = false;
    entry.graph.reset();
    warn_("a plan runs without a CUDA graph: " + std::move(status).str());
    return {};
  }

  Status capture_into(Frame& frame, GraphExec& out) {
    FUSEC_ASSIGN(out, cuda::capture(context_, stream_.get(), [&] { return frame.enqueue(in_, out_, stream_.get()); }));
    FUSEC_TRY(context_->check(driver().cuGraphUpload(out.get(), stream_.get()), "cuGraphUpload"));
    return context_->check(driver().cuStreamSynchronize(stream_.get()),
                           "cuStreamSynchronize");  // it may run on another stream
  }

  Status mark(const Event& event) const {
    return context_->check(driver().cuEventRecord(event.get(), stream_.get()), "cuEventRecord");
  }

  Result<std::vector<Event>> make_events(std::size_t count) {
    std::vector<Event> events;
    for (std::size_t i = 0; i < count; ++i) {
      FUSEC_ASSIGN(Event event, make_event(context_, true));
      events.push_back(std::move(event));
    }
    return events;
  }

  Status read_events(std::span<const Event> events, double* step_us) const {
    for (std::size_t i = 0; i + 1 < events.size(); ++i) {
      float ms = 0;
      FUSEC_TRY(context_->check(driver().cuEventElapsedTime(&ms, events[i].get(), events[i + 1].get()),
                                "cuEventElapsedTime"));
      step_us[i] = 1e3 * static_cast<double>(ms);
    }
    return {};
  }

  const MachineModel machine_;
  ContextPtr context_;
  Stream stream_;
  Event done_;  // of the last work on a stream of the caller
  Device device_;
  bool graphs_wanted_;
  Warn warn_;
  bool pending_ = false;  // work on pending_stream_ may be under way
  bool unread_ = false;   // a run whose status words nobody has read may have set some
  CUstream pending_stream_ = nullptr;
  std::vector<std::unique_ptr<PlanState>> retired_;  // that this work may use
  RunMemory memory_;
  std::vector<std::shared_ptr<Frame>> recorded_;  // in graphs of the caller
  std::vector<RunMemory> recorded_memory_;        // of these, where memory_ had to grow since
  uint64_t generation_ = 0;
  RowMajor row_major_;
  std::vector<Staged> in_staged_, out_staged_;
  std::vector<void*> in_, out_;  // addresses that the launches use
  int64_t captured_ = 0, replayed_ = 0;
  std::unique_ptr<Tracing> tracing_;  // of the profile that was made last
};

}  // namespace

Result<std::unique_ptr<Runner>> make_runner(const ir::Program& program, ContextPtr context, const Options& options,
                                            const MachineModel& machine) {
  FUSEC_TRY(context->alive());
  const Current current(*context);
  FUSEC_TRY(current.status());
  FUSEC_ASSIGN(Stream stream, make_stream(context));
  FUSEC_ASSIGN(Event done, make_event(context, false));
  return std::unique_ptr<Runner>(
      std::make_unique<GpuRunner>(program, std::move(context), std::move(stream), std::move(done), options, machine));
}

}  // namespace fusec::runtime::cuda

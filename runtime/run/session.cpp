// SPDX-License-Identifier: Apache-2.0
// Implements the public Session: checks the inputs of a run, finds or binds the Plan for their shapes, and hands the
// run to the Runner of the device. It keeps the state of the 16 sets of shapes used last.

#include "fusec/session.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "ir/support/check.h"
#include "ir/support/nvtx.h"
#include "runtime/device/device.h"
#include "runtime/device/host/counters.h"
#include "runtime/plan/state.h"
#include "runtime/run/profile.h"
#include "runtime/run/runner.h"
#include "runtime/threads/parallel.h"

namespace fusec {
namespace {

constexpr std::size_t kReady = 16;  // sets of shapes kept ready, as many as the Engine keeps Plans

}  // namespace

struct Session::Impl {
  struct Ready {
    std::vector<int64_t> key;  // ranks and extents of all inputs
    runtime::PlanPtr plan;
    std::unique_ptr<runtime::PlanState> state;
    uint64_t used = 0;
    bool keeps_plan = false;  // its successor could not be taken
  };

  Impl(const Engine& e, std::unique_ptr<runtime::Runner> r) : engine(e), state(e.state()), runner(std::move(r)) {}

  // The runner waits for work under way before the states that it uses go.
  ~Impl() { runner.reset(); }

  std::size_t outputs() const { return engine.outputs().size(); }
  Ready* find(std::span<const Tensor> inputs);  // null: these shapes are not ready
  Result<Ready*> ready(std::span<const Tensor> inputs, int most_threads = INT_MAX);
  Result<Ready*> make_ready(std::span<const TensorShape> shapes, int most_threads = INT_MAX);
  void take_successor(Ready& entry);
  Status check_inputs(std::span<const Tensor> inputs) const;
  Status check(std::span<const Tensor> inputs, std::span<const Tensor> outputs) const;
  // A tool that attaches to NVTX is there from the begin of the process: without one, a run costs one test.
  Status run(std::span<const Tensor> inputs, std::span<Tensor> outputs, double* step_us = nullptr) {
    return annotated ? run_in_range(inputs, outputs, step_us) : run_now(inputs, outputs, step_us);
  }
  Status run_async(std::span<const Tensor> inputs, std::span<Tensor> outputs, void* stream) {
    return annotated ? run_async_in_range(inputs, outputs, stream) : run_async_now(inputs, outputs, stream);
  }
  Status run_in_range(std::span<const Tensor> inputs, std::span<Tensor> outputs, double* step_us);
  Status run_async_in_range(std::span<const Tensor> inputs, std::span<Tensor> outputs, void* stream);
  Status run_now(std::span<const Tensor> inputs, std::span<Tensor> outputs, double* step_us);
  Status run_async_now(std::span<const Tensor> inputs, std::span<Tensor> outputs, void* stream);
  Result<Profile> profile(std::span<const Tensor> inputs, const ProfileOptions& options);
  Status trace_runs(Ready& entry, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                    const ProfileOptions& options, Profile& profile);
  Status count_runs(std::span<const Tensor> inputs, std::span<Tensor> outputs, int64_t count, Profile& profile);

  bool has_new_weights() const {
    return engine.state()->weights != nullptr && engine.state()->weights->version() != weights_version;
  }
  // The host's, for a run on the CPU.
  const HostThreads* host_threads() const {
    return state->device.kind == TargetKind::cpu ? state->options.host_threads.get() : nullptr;
  }
  // Takes the weights that were set since the last run.
  Status take_weights();

  Engine engine;
  std::shared_ptr<const runtime::EngineState> state;  // the Engine's, or the one with its weights of weights_version
  uint64_t weights_version = 0;
  std::unique_ptr<runtime::Runner> runner;
  struct Recorded {
    std::vector<Ready> entries;
    std::unique_ptr<runtime::Runner> runner;
  };
  std::vector<Recorded> recorded;  // of earlier weights, in graphs of the caller
  std::vector<Ready> entries;
  uint64_t clock = 0;
  std::vector<int64_t> key;
  std::vector<Tensor> bound_inputs, bound_outputs;
  int64_t runs = 0, swapped = 0;
  const bool annotated = NvtxRange::is_attached();
};

Status Session::Impl::check_inputs(std::span<const Tensor> inputs) const {
  const std::vector<TensorInfo>& infos = engine.inputs();
  if (inputs.size() != infos.size()) {
    return Status(StatusCode::invalid_argument, "the model has " + std::to_string(infos.size()) +
                                                    " inputs, given are " + std::to_string(inputs.size()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype() != infos[i].dtype) {
      return Status(StatusCode::invalid_argument, "input '" + infos[i].name + "' must be " + to_string(infos[i].dtype) +
                                                      ", given is " + to_string(inputs[i].dtype()));
    }
    if (inputs[i].data() == nullptr && inputs[i].num_elements() > 0) {
      return Status(StatusCode::invalid_argument, "input '" + infos[i].name + "' has no memory");
    }
  }
  return {};
}

Status Session::Impl::check(std::span<const Tensor> inputs, std::span<const Tensor> outputs_given) const {
  FUSEC_TRY(check_inputs(inputs));
  if (outputs_given.size() == outputs()) return {};
  return Status(StatusCode::invalid_argument, "the model has " + std::to_string(outputs()) + " outputs, given are " +
                                                  std::to_string(outputs_given.size()));
}

// An entry is added only when it is complete, so a failed allocation leaves no partial entry.
Result<Session::Impl::Ready*> Session::Impl::make_ready(std::span<const TensorShape> shapes, int most_threads) {
  if (has_new_weights()) FUSEC_TRY(take_weights());
  FUSEC_ASSIGN(runtime::PlanPtr plan, state->plan(shapes, most_threads));
  Ready entry;
  for (const TensorShape& shape : shapes) {
    entry.key.push_back(static_cast<int64_t>(shape.size()));
    entry.key.insert(entry.key.end(), shape.begin(), shape.end());
  }
  entry.used = ++clock;
  const auto known = std::find_if(entries.begin(), entries.end(), [&](const Ready& r) { return r.key == entry.key; });
  if (known != entries.end()) {
    known->used = entry.used;
    return &*known;
  }
  if (entries.size() >= kReady) {
    entries.erase(std::min_element(entries.begin(), entries.end(),
                                   [](const Ready& a, const Ready& b) { return a.used < b.used; }));
  }
  FUSEC_ASSIGN(entry.state, runner->prepare(plan));
  entry.plan = std::move(plan);
  entries.push_back(std::move(entry));
  return &entries.back();
}

Session::Impl::Ready* Session::Impl::find(std::span<const Tensor> inputs) {
  key.clear();
  for (const Tensor& t : inputs) {
    key.push_back(t.rank());
    key.insert(key.end(), t.shape().begin(), t.shape().end());
  }
  for (Ready& entry : entries) {
    if (entry.key != key) continue;
    entry.used = ++clock;
    return &entry;
  }
  return nullptr;
}

Result<Session::Impl::Ready*> Session::Impl::ready(std::span<const Tensor> inputs, int most_threads) {
  if (Ready* const entry = find(inputs)) {
    take_successor(*entry);
    return entry;
  }
  std::vector<TensorShape> shapes;
  for (const Tensor& t : inputs) shapes.push_back(t.shape());
  return make_ready(shapes, most_threads);
}

// A failure (of memory) leaves the Plan in place that has run so far.
void Session::Impl::take_successor(Ready& entry) {
  if (entry.keeps_plan || entry.plan->successor.get() == nullptr) return;
  runtime::PlanPtr next = entry.plan->successor.plan();
  const Result<bool> taken = ir::guarded([&] { return runner->replace(entry.state, next); });
  entry.keeps_plan = !taken.ok();
  if (!taken.ok() || !*taken) return;
  entry.plan = std::move(next);
  ++swapped;
}

Status Session::Impl::run_in_range(std::span<const Tensor> inputs, std::span<Tensor> outputs, double* step_us) {
  const NvtxRange range("run");
  return run_now(inputs, outputs, step_us);
}

Status Session::Impl::run_async_in_range(std::span<const Tensor> inputs, std::span<Tensor> outputs, void* stream) {
  const NvtxRange range("run");
  return run_async_now(inputs, outputs, stream);
}

Status Session::Impl::run_now(std::span<const Tensor> inputs, std::span<Tensor> outputs, double* step_us) {
  FUSEC_TRY(check(inputs, outputs));
  if (has_new_weights()) FUSEC_TRY(take_weights());
  const runtime::OnHostThreads on_host(host_threads());
  FUSEC_ASSIGN(Ready * entry, ready(inputs));
  const runtime::Lease team(entry->plan->loaded->device == nullptr ? entry->plan->team : 1);
  if (entry->plan->loaded->device == nullptr && team.threads() < entry->plan->team) {
    // Fewer threads are available than when the Plan was bound, for example in a child made by fork. Another Plan is
    // bound for the available threads.
    entries.clear();
    FUSEC_ASSIGN(entry, ready(inputs, team.threads()));
  }
  FUSEC_TRY(runner->run(*entry->state, inputs, outputs, step_us));
  ++runs;
  return {};
}

Result<Profile> Session::Impl::profile(std::span<const Tensor> inputs, const ProfileOptions& options) {
  if (options.runs < 1 || options.warmup < 0) {
    return Status(StatusCode::invalid_argument, "a profile needs at least one run, asked for are " +
                                                    std::to_string(options.runs) + " after " +
                                                    std::to_string(options.warmup));
  }
  engine.wait_for_specialized();
  std::vector<Tensor> to(outputs());
  // The first run takes new weights and kernels, and makes the outputs.
  for (int64_t i = 0; i < options.warmup + 1; ++i) FUSEC_TRY(run(inputs, to));
  const runtime::OnHostThreads on_host(host_threads());
  Ready* const entry = find(inputs);
  Profile profile;
  FUSEC_ASSIGN(profile.source, runner->begin_tracing(*entry->state));
  const Status traced = trace_runs(*entry, inputs, to, options, profile);
  const Status ended = runner->end_tracing(*entry->state);
  FUSEC_TRY(traced);
  FUSEC_TRY(ended);
  if (options.counters && state->device.kind == TargetKind::cpu)
    FUSEC_TRY(count_runs(inputs, to, options.runs, profile));
  return profile;
}

// Runs of their own, so that counting slows down no run that is timed.
Status Session::Impl::count_runs(std::span<const Tensor> inputs, std::span<Tensor> to, int64_t count,
                                 Profile& profile) {
  const Result<runtime::ProcessorCounters> counters = runtime::ProcessorCounters::start();
  if (!counters.ok()) {
    profile.notes.push_back(counters.status().message());
    return {};
  }
  for (int64_t i = 0; i < count; ++i) FUSEC_TRY(run(inputs, to));
  profile.counters = counters->read();
  for (auto& [name, value] : profile.counters) value /= static_cast<double>(count);
  return {};
}

// Both kinds of runs do all that Session::run does. Where they may, they take turns, so that what changes the machine's
// speed changes both.
Status Session::Impl::trace_runs(Ready& entry, std::span<const Tensor> inputs, std::span<Tensor> to,
                                 const ProfileOptions& options, Profile& profile) {
  const runtime::Plan& plan = *entry.plan;
  runtime::ProfiledRuns all;
  const auto trace_once = [&](std::span<runtime::RunTrace> traces) -> Status {
    traces.front().begin = runtime::now_ns();
    FUSEC_TRY(check(inputs, to));
    (void)find(inputs);
    const runtime::Lease team(plan.loaded->device == nullptr ? plan.team : 1);
    FUSEC_TRY(runner->run_traced(*entry.state, inputs, to, traces));
    runs += static_cast<int64_t>(traces.size());
    return {};
  };
  const auto time_once = [&]() -> Status {
    const int64_t begin = runtime::now_ns();
    FUSEC_TRY(check(inputs, to));
    (void)find(inputs);
    const runtime::Lease team(plan.loaded->device == nullptr ? plan.team : 1);
    FUSEC_TRY(runner->run(*entry.state, inputs, to, nullptr));
    all.untraced_us.push_back(runtime::to_us(runtime::now_ns() - begin));
    ++runs;
    if (plan.loaded->device == nullptr) return {};
    FUSEC_ASSIGN(const double device_us, runner->run_device_us(*entry.state, inputs, to));
    all.device_us.push_back(device_us);
    return {};
  };
  constexpr std::size_t kFirst = 3;  // runs that make room for records and capture a graph
  const bool in_turn = runner->traces_beside_runs();
  all.traced.resize(static_cast<std::size_t>(options.runs) + kFirst);
  std::span<runtime::RunTrace> left = all.traced;
  for (std::size_t at_once = 1; !left.empty(); left = left.subspan(at_once)) {
    const std::size_t done = all.traced.size() - left.size();
    if (done == kFirst) at_once = runner->traced_at_once(all.traced[kFirst - 1]);
    at_once = std::min(at_once, left.size());
    FUSEC_TRY(trace_once(left.first(at_once)));
    if (in_turn) FUSEC_TRY(time_once());
  }
  if (!in_turn) {
    FUSEC_TRY(runner->end_tracing(*entry.state));
    for (std::size_t i = 0; i < all.traced.size(); ++i) FUSEC_TRY(time_once());
  }
  all.traced.erase(all.traced.begin(), all.traced.begin() + kFirst);
  for (std::vector<double>* const us : {&all.untraced_us, &all.device_us})
    if (!us->empty()) us->erase(us->begin(), us->begin() + kFirst);
  runtime::summarize(plan, runtime::describe(plan, engine.target(), ir::Residence::near), all, profile);
  return runner->add_facts(*entry.state, profile);
}

Status Session::Impl::run_async_now(std::span<const Tensor> inputs, std::span<Tensor> outputs, void* stream) {
  FUSEC_TRY(check(inputs, outputs));
  FUSEC_ASSIGN(const bool captures, runner->is_capturing(stream));
  if (captures) {
    Ready* const entry = has_new_weights() ? nullptr : find(inputs);
    if (entry == nullptr) {
      return Status(StatusCode::invalid_argument,
                    "the stream is being captured, and this session has not seen these input shapes, or not with the "
                    "weights that were set; prepare or run them before the capture");
    }
    return runner->record(*entry->state, inputs, outputs, stream);
  }
  if (has_new_weights()) FUSEC_TRY(take_weights());
  const runtime::OnHostThreads on_host(host_threads());
  FUSEC_ASSIGN(Ready* const entry, ready(inputs));
  FUSEC_TRY(runner->run_async(*entry->state, inputs, outputs, stream));
  ++runs;
  return {};
}

// After an error the Session is as before, and the next run tries again.
Status Session::Impl::take_weights() {
  FUSEC_ASSIGN(auto made, engine.state()->weights->current());
  FUSEC_ASSIGN(std::unique_ptr<runtime::Runner> fresh, make_runner(*made.second));
  Recorded old{std::move(entries), std::exchange(runner, std::move(fresh))};
  entries.clear();
  if (old.runner->is_recorded()) recorded.push_back(std::move(old));
  weights_version = made.first;
  state = std::move(made.second);
  return {};
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Session> Session::create(const Engine& engine) noexcept {
  return ir::guarded([&]() -> Result<Session> {
    FUSEC_ASSIGN(std::unique_ptr<runtime::Runner> runner, make_runner(*engine.state()));
    return Session(std::make_unique<Impl>(engine, std::move(runner)));
  });
}

Status Session::run(std::span<const Tensor> inputs, std::span<Tensor> outputs) noexcept {
  return ir::guarded([&] { return impl_->run(inputs, outputs); });
}

Result<std::vector<Tensor>> Session::run(std::span<const Tensor> inputs) noexcept {
  return ir::guarded([&]() -> Result<std::vector<Tensor>> {
    std::vector<Tensor> outputs(impl_->outputs());
    FUSEC_TRY(impl_->run(inputs, outputs));
    return outputs;
  });
}

Status Session::run_async(std::span<const Tensor> inputs, std::span<Tensor> outputs, void* stream) noexcept {
  return ir::guarded([&] { return impl_->run_async(inputs, outputs, stream); });
}

Status Session::bind_io(std::span<const Tensor> inputs, std::span<const Tensor> outputs) noexcept {
  return ir::guarded([&]() -> Status {
    FUSEC_TRY(impl_->check(inputs, outputs));
    std::vector<Tensor> in(inputs.begin(), inputs.end()), out(outputs.begin(), outputs.end());
    FUSEC_ASSIGN(Impl::Ready* const entry, impl_->ready(in));
    FUSEC_TRY(impl_->runner->bind(*entry->state, in, out));
    impl_->bound_inputs = std::move(in);
    impl_->bound_outputs = std::move(out);
    return {};
  });
}

Status Session::run_bound() noexcept {
  return ir::guarded([&] { return impl_->run(impl_->bound_inputs, impl_->bound_outputs); });
}

Status Session::prepare(std::span<const TensorShape> input_shapes) noexcept {
  return ir::guarded([&] { return impl_->make_ready(input_shapes).status(); });
}

Result<std::vector<TensorShape>> Session::output_shapes(std::span<const TensorShape> input_shapes) const noexcept {
  return impl_->engine.output_shapes(input_shapes);
}

Result<PlanStats> Session::profile(std::span<const Tensor> inputs) noexcept {
  return ir::guarded([&]() -> Result<PlanStats> {
    FUSEC_TRY(impl_->check_inputs(inputs));
    FUSEC_ASSIGN(Impl::Ready* const entry, impl_->ready(inputs));
    PlanStats stats = runtime::describe(*entry->plan, impl_->engine.target(), ir::Residence::near);
    std::vector<double> us(stats.steps.size());
    std::vector<Tensor> outputs(impl_->outputs());
    FUSEC_TRY(impl_->run(inputs, outputs, us.data()));
    for (std::size_t i = 0; i < us.size(); ++i) stats.steps[i].us = us[i];
    return stats;
  });
}

Result<Profile> Session::profile(std::span<const Tensor> inputs, const ProfileOptions& options) noexcept {
  return ir::guarded([&] { return impl_->profile(inputs, options); });
}

SessionStats Session::stats() const {
  SessionStats stats;
  stats.runs = impl_->runs;
  stats.prepared = static_cast<int64_t>(impl_->entries.size());
  stats.swapped = impl_->swapped;
  stats.arena_bytes = impl_->runner->arena_bytes();
  impl_->runner->count(stats);
  return stats;
}

const Engine& Session::engine() const { return impl_->engine; }

}  // namespace fusec

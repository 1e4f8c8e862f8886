// SPDX-License-Identifier: Apache-2.0
// Binds the plan by the libraries' own algorithms and by the picks, and runs both in turn, as a Session would.

#include "runtime/engine/model_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "fusec/device.h"
#include "runtime/device/device.h"
#include "runtime/plan/bind.h"
#include "runtime/run/runner.h"
#include "runtime/threads/parallel.h"
#include "runtime/tuning/timed_call.h"

namespace fusec::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kClearlyFaster = 0.99;  // of the time of the default algorithms: no pick is suspected
constexpr double kUsInTurn = 150'000;    // of runs of each way
constexpr int kMinRuns = 5, kMaxRuns = 201;
constexpr int kRunsUncounted = 3;

double seconds_after(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A plan that is ready to run.
struct ReadyPlan {
  PlanPtr plan;
  std::unique_ptr<PlanState> state;
};

// Runs as a Session's.
class ModelRuns {
 public:
  static Result<std::unique_ptr<ModelRuns>> make(const EngineState& state, const Bindings& bindings,
                                                 std::span<const Tensor> inputs) {
    std::unique_ptr<ModelRuns> runs(new ModelRuns(state, bindings));
    for (const Tensor& input : inputs) {
      FUSEC_ASSIGN(Tensor there, make_tensor(state.device, input.dtype(), input.shape()));
      FUSEC_TRY(copy(input, there));
      runs->inputs_.push_back(std::move(there));
    }
    runs->outputs_.resize(state.program().outputs.size());  // made by the first run
    const LoadedProgram& loaded = *state.loaded;
    if (loaded.device == nullptr) {
      runs->runner_ = make_host_runner(loaded.program, state.options.allocator);
    } else {
      FUSEC_ASSIGN(runs->runner_, loaded.device->make_runner(loaded.program, state.options, state.target.model));
    }
    return runs;
  }

  // What `tuning` picks now is what later runs are compared with.
  Status begin(Tuning& tuning) {
    FUSEC_ASSIGN(by_default_, prepare(tuning));
    return {};
  }

  // That, and what `tuning` picks.
  Result<ModelTimes> time_in_turn(Tuning& tuning) {
    FUSEC_ASSIGN(ReadyPlan picked, prepare(tuning));
    double us = 0;
    for (int i = 0; i < kRunsUncounted; ++i) {
      FUSEC_ASSIGN(us, once(by_default_));
      FUSEC_TRY(once(picked).status());
    }
    const int runs = std::clamp(static_cast<int>(kUsInTurn / us), kMinRuns, kMaxRuns);
    std::vector<double> first, second;
    for (int i = 0; i < runs; ++i) {
      FUSEC_ASSIGN(const double one, once(by_default_));
      FUSEC_ASSIGN(const double other, once(picked));
      first.push_back(one);
      second.push_back(other);
    }
    return ModelTimes{compute_spread(std::move(first)).median, compute_spread(std::move(second)).median};
  }

 private:
  ModelRuns(const EngineState& state, const Bindings& bindings) : state_(state), bindings_(bindings) {}

  Result<ReadyPlan> prepare(Tuning& tuning) {
    ReadyPlan ready;
    FUSEC_ASSIGN(ready.plan, bind(state_.loaded, bindings_, state_.threads, &tuning));
    FUSEC_ASSIGN(ready.state, runner_->prepare(ready.plan));
    return ready;
  }

  Result<double> once(ReadyPlan& ready) {
    const Clock::time_point start = Clock::now();
    FUSEC_TRY(runner_->run(*ready.state, inputs_, outputs_, nullptr));
    return std::max(1e6 * seconds_after(start), 1e-3);
  }

  const EngineState& state_;
  const Bindings& bindings_;
  std::unique_ptr<Runner> runner_;
  std::vector<Tensor> inputs_, outputs_;
  ReadyPlan by_default_;
};

// A pick and the layer that it is of.
struct Tried {
  TunedLayer* layer = nullptr;
  TuningRow pick;
  bool refused = false;
  ModelTimes us;  // zeros: it was not tried
};

std::vector<Tried> list_untried(TuneReport& report) {
  std::vector<Tried> out;
  for (TunedLayer& layer : report.layers) {
    if (const TuningRow* pick = untried_pick(layer.rows)) out.push_back({&layer, *pick, false, {}});
  }
  return out;
}

// Plans have the picks that `take` wants, and the libraries' own algorithms for the others.
template <typename F>
void set_trial(Tuning& tuning, const std::vector<Tried>& tried, const F& take) {
  std::set<std::string> calls, taken;
  for (const Tried& one : tried) {
    calls.insert(one.layer->call);
    if (take(one)) taken.insert(one.layer->call);
  }
  tuning.set_trial(std::move(calls), std::move(taken));
}

// Each by itself, and then all that were not slower.
Status try_each(Tuning& tuning, std::vector<Tried>& tried, const TimeModel& time, Clock::time_point start,
                double seconds, ModelCheck& check) {
  const auto refuse_if_slower = [](Tried& one, const ModelTimes& us) {
    one.refused = us.picked > us.by_default;
    one.us = us;
  };
  for (Tried& one : tried) {
    if (seconds > 0 && seconds_after(start) >= seconds) return {};
    set_trial(tuning, tried, [&](const Tried& other) { return &other == &one; });
    FUSEC_ASSIGN(const ModelTimes us, time.time());
    refuse_if_slower(one, us);
  }
  const auto taken = [](const Tried& one) { return one.us.picked > 0 && !one.refused; };
  check.tuned_us = check.default_us;
  if (std::none_of(tried.begin(), tried.end(), taken)) return {};
  set_trial(tuning, tried, taken);
  FUSEC_ASSIGN(const ModelTimes us, time.time());
  check.default_us = us.by_default, check.tuned_us = std::min(us.by_default, us.picked);
  for (Tried& one : tried) {
    if (taken(one)) refuse_if_slower(one, us);
  }
  return {};
}

Status try_all(Tuning& tuning, std::vector<Tried>& tried, const TimeModel& time, double seconds, ModelCheck& check) {
  const Clock::time_point start = Clock::now();
  set_trial(tuning, tried, [](const Tried&) { return false; });
  FUSEC_TRY(time.begin());
  set_trial(tuning, tried, [](const Tried&) { return true; });
  FUSEC_ASSIGN(const ModelTimes us, time.time());
  check.default_us = us.by_default, check.tuned_us = us.picked;
  if (us.picked > kClearlyFaster * us.by_default) return try_each(tuning, tried, time, start, seconds, check);
  for (Tried& one : tried) one.us = us;
  return {};
}

TuningRow make_row(const Tried& tried, const std::string& scope) {
  TuningRow row;
  row.scope = scope, row.call = tried.layer->call;
  row.library = kWholeModel, row.algorithm = name_pick(tried.pick);
  row.time =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  if (tried.refused) {
    row.failure = fmt::format("a run of a model took {:.1f} us with it and {:.1f} us with the default algorithm",
                              tried.us.picked, tried.us.by_default);
  } else {
    row.median_us = tried.us.picked;
    row.runs = 1;
  }
  return row;
}

}  // namespace

Result<ModelCheck> try_picks(Tuning& tuning, double seconds, const TimeModel& time, TuneReport& report) {
  ModelCheck check;
  std::vector<Tried> tried = list_untried(report);
  if (tried.empty()) return check;
  const Clock::time_point start = Clock::now();
  const Status status = try_all(tuning, tried, time, seconds, check);
  tuning.set_trial({}, {});
  FUSEC_TRY(status);
  const std::string scope = tuning.scope();
  for (const Tried& one : tried) {
    if (one.us.picked <= 0) continue;  // the time was up
    const TuningRow row = make_row(one, scope);
    tuning.add({row});
    one.layer->rows.push_back(row);
    ++check.tried;
    check.refused += one.refused;
  }
  check.seconds = seconds_after(start);
  return check;
}

Result<ModelCheck> check_in_model(const EngineState& state, const Bindings& bindings, std::span<const Tensor> inputs,
                                  Tuning& tuning, double seconds, TuneReport& report) {
  const Lease team(state.loaded->device == nullptr ? state.threads : 1);
  std::unique_ptr<ModelRuns> runs;  // made when there is something to try
  const auto begin = [&]() -> Status {
    FUSEC_ASSIGN(runs, ModelRuns::make(state, bindings, inputs));
    return runs->begin(tuning);
  };
  return try_picks(tuning, seconds, {begin, [&] { return runs->time_in_turn(tuning); }}, report);
}

Result<ModelTimes> time_fastest(const EngineState& state, const Bindings& bindings, std::span<const Tensor> inputs,
                                Tuning& tuning, const std::set<std::string>& calls) {
  const Lease team(state.loaded->device == nullptr ? state.threads : 1);
  FUSEC_ASSIGN(const std::unique_ptr<ModelRuns> runs, ModelRuns::make(state, bindings, inputs));
  FUSEC_TRY(runs->begin(tuning));
  tuning.set_trial(calls, calls);
  Result<ModelTimes> times = runs->time_in_turn(tuning);
  tuning.set_trial({}, {});
  return times;
}

}  // namespace fusec::runtime

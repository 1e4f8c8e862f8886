// SPDX-License-Identifier: Apache-2.0
// Runs of the whole model with the algorithms that were the fastest alone. A call alone has the device for itself,
// finds other data in the caches, and waits for nothing; so what is faster alone may be slower in a model, and is left
// out then.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>

#include "fusec/tensor.h"
#include "runtime/plan/state.h"
#include "runtime/plan/tuner.h"
#include "runtime/tuning/tuning.h"

namespace fusec::runtime {

struct ModelCheck {
  double default_us = 0, tuned_us = 0;  // medians of a run; 0: there was nothing to try
  int64_t tried = 0, refused = 0;       // distinct calls
  double seconds = 0;
};

// Medians of a run, in microseconds.
struct ModelTimes {
  double by_default = 0, picked = 0;
};
// Runs of the model.
struct TimeModel {
  std::function<Status()> begin;             // what the Tuning picks now is what later runs are compared with
  std::function<Result<ModelTimes>()> time;  // that, and what the Tuning picks now, in turn
};

// Tries the picks of the report's layers that no model has been run with (untried_pick): first all of them together
// and, where the model is not clearly faster, each by itself. Gives `tuning` and the report a row of each. `tuning` has
// a strategy that picks. seconds: no other pick is tried after so many; 0: no limit.
Result<ModelCheck> try_picks(Tuning& tuning, double seconds, const TimeModel& time, TuneReport& report);

// try_picks() with runs of the Engine's model. `inputs` have the shapes of `bindings`.
Result<ModelCheck> check_in_model(const EngineState& state, const Bindings& bindings, std::span<const Tensor> inputs,
                                  Tuning& tuning, double seconds, TuneReport& report);

// Runs with what `tuning` picks, in turn with runs in which these calls take the algorithm that was the fastest alone,
// whatever rows of whole models say. Stores nothing.
Result<ModelTimes> time_fastest(const EngineState& state, const Bindings& bindings, std::span<const Tensor> inputs,
                                Tuning& tuning, const std::set<std::string>& calls);

}  // namespace fusec::runtime

// SPDX-License-Identifier: Apache-2.0
// What `fusec advise` is asked, what it finds for one set of shapes, and how that is printed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/engine/engine.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/insight/advice.h"
#include "runtime/tool/insight/gap.h"
#include "runtime/tool/step_facts.h"

namespace fusec::tool {

struct AdviseFlags : ModelFlags {
  std::string batch, allow = "auto", database, scope;
  double duration = 1;
  int64_t runs = 0, warmup = 3;
  bool measure = false, quick = false, no_check = false;
};

// The compiled model, and what is the same for all shapes.
struct Subject {
  const AdviseFlags& flags;
  Options options;
  Loaded loaded;
  runtime::Machine machine;
  runtime::Stages stages;  // with all candidates that can be measured
  AllowedTypes allowed;
};

// One set of shapes.
struct Shapes {
  Symbols symbols;
  std::vector<TensorShape> shapes;
  std::vector<Tensor> inputs;  // on the host
};
Result<Shapes> make_shapes(const Subject& subject, int64_t batch);
RunSettings settings_of(const Subject& subject);
// invalid_argument that names the layers of steps which lack rows; ok where none does.
Status refuse_missing(const std::vector<StepFacts>& steps, const AdviseFlags& flags);

// An advice whose change was made and measured.
struct CheckedAdvice : Advice {
  std::optional<double> measured_gain_us;
  std::string not_checked;  // why
};

struct Advised {
  int64_t batch = 0;  // 0: not given
  Symbols symbols;
  std::vector<StepFacts> steps;
  Bound library, fusion;
  Gap gap;
  bool by_database = false;   // nothing was run: a step takes the time of what is taken untuned
  std::size_t predicted = 0;  // then: generated kernels without rows, which count by the machine model
  std::string source;         // Profile::source, else empty
  int64_t runs = 0;           // of the round that counts: that were traced, and as many that were not
  double traced_us = 0;       // of a traced run
  double slow_down = 1;       // of traced runs; the times of steps and gaps were divided by it
  std::vector<CheckedAdvice> advice;
  std::size_t layers = 0, distinct_layers = 0;  // steps that have rows, and how many of them differ
};

// --database: by the rows of another machine alone, which is not asked for.
struct WhatIf {
  Target target;
  std::string call_scope, kernel_scope;
  std::map<std::string, std::vector<runtime::TuningRow>> calls, kernels;  // by call
};
// The options name the target, or mean this machine. invalid_argument: the file cannot be read, has no rows of such a
// target, or has those of several machines and flags.scope does not say which.
Result<WhatIf> read_what_if(const AdviseFlags& flags, const Options& options);
Result<Advised> advise_by_database(const Subject& subject, const WhatIf& rows, int64_t batch);
// Steps that have layers, bounds, gap and advice, from a.steps and the times of a run.
void complete(Advised& a, const RunTimes& times, const RunSettings& run);

Json make_json(const Advised& advised);
std::string sweep_report(const std::vector<Advised>& all);
Json sweep_json(const std::vector<Advised>& all);
std::string report(const Advised& advised, bool all_steps);

}  // namespace fusec::tool

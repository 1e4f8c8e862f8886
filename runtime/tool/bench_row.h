// SPDX-License-Identifier: Apache-2.0
// What `fusec bench` knows of one model after measuring, and how it prints that: as text, JSON and CSV, and beside an
// earlier JSON of the same model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fusec/session.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/measure/clocks.h"
#include "runtime/tool/measure/gpu_baseline.h"
#include "runtime/tool/measure/library_sum.h"
#include "runtime/tool/measure/statistics.h"
#include "runtime/tool/steps.h"

namespace fusec::tool {

// Of one batch.
struct BenchRow {
  int64_t batch = 0;  // 0: not given
  Symbols symbols;
  PlanStats plan;
  int64_t bytes = 0;                // inputs and outputs, each once
  std::vector<double> us;           // of each run
  double seconds = 0;               // wall time of all runs of several sessions
  std::optional<double> samples;    // of one run, where a symbol is the batch
  std::vector<double> transfer_us;  // of --transfers: of runs with inputs and outputs on the host
  double copy_us = 0;
  std::optional<double> score;
  std::optional<HostTime> host;  // of a GPU
  int64_t compiled_kernels = 0;
  std::optional<LibrarySum> library_sum;
  StepView steps;

  double runs_per_s() const;
};

// Milliseconds by the rules of the JSON contract: neither holds weights nor the device's own start.
struct StartUp {
  double compile_ms = 0, ready_ms = 0, weights_ms = 0, device_ms = 0;
};

struct BenchReport {
  Engine engine;
  StartUp start;
  std::vector<BenchRow> rows;
  MachineState before, after;
  std::string doubts;  // why times may vary
};

// "f32", "f16": of what runs, which a package decides.
inline const char* precision_name(const Options& options) {
  return options.precision ? to_string(*options.precision) : "f32";
}

// One batch beside the same one of an earlier JSON.
struct RowChange {
  std::string name;  // of the model, with its symbols
  TimeChange change;
};

Json make_json(const BenchReport& report, const BenchFlags& flags);
std::string make_csv(const BenchReport& report, const BenchFlags& flags);
std::string make_text(const BenchReport& report, const BenchFlags& flags);

// Whether the file of --against is what --json prints, which is another form than that of --save: before anything is
// measured.
Status check_earlier(const std::string& path);
// invalid_argument where the file lacks samples, or is of another device, setting or symbols than `report`.
Result<std::vector<RowChange>> compare_with(const std::string& path, const BenchReport& report,
                                            const BenchFlags& flags);
Json make_json(const std::vector<RowChange>& changes);
std::string make_text(const std::vector<RowChange>& changes);

struct SessionTimes {
  std::vector<double> us;  // of each run, session by session
  double seconds = 0;      // from the first run to the end of the last
};
// Sessions of one Engine, each on a thread and with outputs of its own, run side by side for the time of the budget.
// `inputs` and the outputs lie on the host where on_host is set, else on the Engine's device.
Result<SessionTimes> time_sessions(const Engine& engine, const std::vector<Tensor>& inputs,
                                   const std::vector<TensorShape>& outputs, bool on_host, const BenchFlags& flags);

}  // namespace fusec::tool

// SPDX-License-Identifier: Apache-2.0
// One function per command, in the file of its name, and what they are made with: the front, from which run, bench and
// inspect get models (in `fusec` packages alone, in `fusec-compiler` models to compile), the parts of `fusec bench` (a
// model, patterns, and the speed gate over both), and what every command asks of a model file before anything reads it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fusec/package.h"
#include "fusec/status.h"
#include "runtime/tool/common.h"
#include "runtime/tool/flags.h"
#include "runtime/tool/measure/timing.h"

namespace fusec::tool {

struct BenchFlags : ModelFlags {
  std::string patterns, batch;
  std::string against, save, commit;  // of the speed gate
  std::vector<std::string> models;
  double duration = 1;
  double time_limit = 0;  // seconds; of --patterns
  int64_t runs = 0, warmup = 3;
  int64_t sessions = 1, top = 0;
  bool steps = false, library_sum = false, cycles = false, by_op = false, transfers = false, csv = false;
  int64_t rotate_mb = 0;
  Budget budget() const { return {duration, runs, warmup}; }
};

// score = time of the fastest copy of the bytes of all inputs and outputs / time of the pattern, per file.
Result<bool> bench_patterns(const BenchFlags& flags);

// Five rounds over --patterns and --models, kept in --save, held against --against. false: something is slower, or
// failed.
Result<bool> bench_gate(const BenchFlags& flags);

// The .onnx and .fir files of a folder, sorted, or the one file that `where` names. invalid_argument, naming `flag`:
// there are none.
Result<std::vector<std::string>> model_files(const std::string& where, const std::string& flag);

struct Loaded {
  Model model;
  std::optional<Package> package;  // the model is compiled already, and `model` has no graph
  double load_ms = 0;              // reading and importing, without weights_ms
  double weights_ms = 0;           // reading, making or checking weights
};

// Of `fusec run`: what it does with the values between the steps.
struct ValueFlags {
  std::string dump_dir, match;
  bool check = false, denormals = false;
  bool any() const { return !dump_dir.empty() || check; }
};
struct ValueReport {
  std::vector<Tensor> outputs;
  bool ok = true;  // false: a check failed
  Json json;
  std::string text;
};

struct Front {
  Result<Loaded> (*load)(const ModelFlags&) = nullptr;
  Result<Engine> (*compile)(const Model&, const Options&) = nullptr;  // null: there is no compiler
  // Where the options ask for tuning: of the kernels of symbolic shapes, for these values. Null with `compile`.
  Status (*tune)(const Model&, const Options&, const Symbols&) = nullptr;
  Result<bool> (*bench_patterns)(const BenchFlags&) = nullptr;  // null with it
  Result<bool> (*bench_gate)(const BenchFlags&) = nullptr;      // null with it
  // A run that looks at values. Null with `compile`.
  Result<ValueReport> (*run_values)(const Loaded&, const Options&, const std::vector<Tensor>& inputs,
                                    const ValueFlags&) = nullptr;
};

// Of packages, which `load` opens; flags that contradict the package are refused.
Front package_front();
// Tuned, where the options ask for it, for these values of the model's symbols.
Result<Engine> make_engine(const Front& front, const Loaded& loaded, const Options& options, const Symbols& symbols);

Command run_command(const Front& front);
Command bench_command(const Front& front);
Command profile_command(const Front& front);
Command compile_command();
Command tune_command();
Command advise_command();
Command verify_command();
Command compare_command();
Command conformance_command();
Command reduce_command();
Command inspect_command(const Front& front);
Command import_command();
Command optimize_command();
Command partition_command();
Command lower_command();
Command select_command();
Command emit_command();
Command bind_command();
Command explain_command();
Command graph_command();
Command report_command();
Command ops_command();
Command accuracy_command();
Command materialize_command();
Command cache_command();
Command doctor_command();
// all: every command, these two too.
Command completion_command(std::vector<Command> (*all)());
Command reference_command(std::vector<Command> (*all)());

// It is a regular file, and is called .fsc when it begins as a package and only then. invalid_argument, at once: a FIFO
// is not waited for.
Status check_model_file(const std::string& path);

}  // namespace fusec::tool

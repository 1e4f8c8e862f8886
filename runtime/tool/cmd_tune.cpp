// SPDX-License-Identifier: Apache-2.0
// Implements `fusec tune`: compiles a model, measures the algorithms of its convolutions and matmuls and the candidates
// of its generated kernels with the tuners, and stores the times in the tuning database. The Engine is compiled with
// Strategy::heuristic, because it only serves to list the calls and to run the model; the kernels come from a Program
// of their own, for which select knows no times.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "fusec/device.h"
#include "runtime/engine/child_timer.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/kernel_tuner.h"
#include "runtime/engine/model_check.h"
#include "runtime/plan/state.h"
#include "runtime/plan/tuner.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/common.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/kernel_tuning.h"
#include "runtime/tool/model_file.h"
#include "runtime/tool/shard.h"
#include "runtime/tool/tuning_file.h"

namespace fusec::tool {
namespace {

using runtime::TunedLayer;
using runtime::TuneReport;
using runtime::TuningDatabase;
using runtime::TuningRow;

constexpr double kBusy = 0.3;  // a spread that only a machine with other work has
constexpr std::size_t kOriginWidth = 32, kCallWidth = 64, kChoiceWidth = 44;

struct TuneFlags : ModelFlags {
  std::string batch;
  std::vector<std::string> merge;
  std::string shard;
  double time_limit = 0;
  bool quick = false, again = false, isolated = false, serve = false;
  TuningFileFlags file;
};

// One set of shapes.
struct TunedShapes {
  Symbols symbols;
  TuneReport report, kernels;
  runtime::ModelCheck check;
};

std::string format_name(const TuningRow& row) { return row.library + " " + row.algorithm; }

Json make_json(const TuningRow& row) {
  Json json = {{"library", row.library}, {"algorithm", row.algorithm}, {"default", row.is_default}};
  if (row.failed()) {
    json["failure"] = row.failure;
    return json;
  }
  json.update(Json{{"us", row.median_us}, {"spread", row.spread}, {"runs", row.runs}, {"workspace", row.workspace}});
  return json;
}

Json make_json(const TunedLayer& layer, const Symbols& symbols) {
  Json json = {{"origin", layer.origin}, {"count", layer.count}, {"symbols", symbols}, {"call", layer.call}};
  const TuningRow *by_default = default_row(layer.rows), *best = best_row(layer.rows);
  json["heuristic"] = by_default != nullptr ? make_json(*by_default) : Json();
  json["best"] = best != nullptr ? make_json(*best) : Json();
  json["algorithms"] = Json::array();
  for (const TuningRow& row : layer.rows) json["algorithms"].push_back(make_json(row));
  return json;
}

struct Summed {
  int64_t measured = 0, reused = 0, failed = 0, elsewhere = 0;
  double seconds = 0, heuristic_us = 0, tuned_us = 0, spread = 0;
  bool finished = true;
  double logs = 0;       // of tuned time / first choice's time
  int64_t compared = 0;  // that have both
  double mean() const { return compared > 0 ? std::exp(logs / static_cast<double>(compared)) : 1; }
};

Summed sum_reports(const std::vector<TunedShapes>& all, TuneReport TunedShapes::*which) {
  Summed sum;
  for (const TunedShapes& one : all) {
    const TuneReport& report = one.*which;
    sum.measured += report.measured, sum.reused += report.reused, sum.failed += report.failed;
    sum.elsewhere += report.elsewhere;
    sum.seconds += report.seconds;
    sum.finished = sum.finished && report.finished;
    sum.spread = std::max(sum.spread, runtime::typical_spread(report));
    const runtime::TuneTotals totals = runtime::totals(report);
    sum.heuristic_us += totals.default_us, sum.tuned_us += totals.best_us;
    for (const TunedLayer& layer : report.layers) {
      const TuningRow *by_default = default_row(layer.rows), *best = best_row(layer.rows);
      if (by_default == nullptr) continue;
      sum.logs += std::log(best->median_us / by_default->median_us);
      ++sum.compared;
    }
  }
  return sum;
}

Json make_json(const std::vector<TunedShapes>& all, TuneReport TunedShapes::*which) {
  Json list = Json::array();
  for (const TunedShapes& one : all)
    for (const TunedLayer& layer : (one.*which).layers) list.push_back(make_json(layer, one.symbols));
  return list;
}

Json make_json(const runtime::ModelCheck& check, const Symbols& symbols) {
  return {{"symbols", symbols},   {"default_us", check.default_us}, {"tuned_us", check.tuned_us},
          {"tried", check.tried}, {"refused", check.refused},       {"seconds", check.seconds}};
}

Json make_json(const runtime::Tuning::Sources& sources) {
  return {{"own", sources.own}, {"shared", sources.shared}, {"server", sources.server}};
}

void print_json(const Engine& engine, const std::vector<TunedShapes>& all, int64_t merged, const std::string& database,
                runtime::Tuning& tuning, KernelTuning& kernel_tuning) {
  const Summed sum = sum_reports(all, &TunedShapes::report), kernels = sum_reports(all, &TunedShapes::kernels);
  Json json = {{"device", to_string(engine.device())},
               {"database", database},
               {"merged", merged},
               {"measured", sum.measured},
               {"reused", sum.reused},
               {"failed", sum.failed},
               {"elsewhere", sum.elsewhere + kernels.elsewhere},
               {"seconds", sum.seconds},
               {"finished", sum.finished},
               {"heuristic_us", sum.heuristic_us},
               {"tuned_us", sum.tuned_us},
               {"spread", sum.spread},
               {"rows", make_json(tuning.sources())},
               {"scope", engine.state()->tuning().scope()}};
  json["model"] = Json::array();
  for (const TunedShapes& one : all) json["model"].push_back(make_json(one.check, one.symbols));
  json["layers"] = make_json(all, &TunedShapes::report);
  json["kernels"] = {{"measured", kernels.measured},     {"reused", kernels.reused},
                     {"failed", kernels.failed},         {"seconds", kernels.seconds},
                     {"finished", kernels.finished},     {"rows", make_json(kernel_tuning.tuning->sources())},
                     {"first_us", kernels.heuristic_us}, {"tuned_us", kernels.tuned_us},
                     {"mean_ratio", kernels.mean()},     {"variants", make_json(all, &TunedShapes::kernels)}};
  print(json);
}

std::string us_text(const TuningRow* row) { return row == nullptr ? "-" : fmt::format("{:.1f}", row->median_us); }

void print_layers(const TuneReport& report) {
  Table table({"count", "default us", "best us", "speedup", "default", "fastest", "step", "call"});
  for (const TunedLayer& layer : report.layers) {
    const TuningRow *by_default = default_row(layer.rows), *best = best_row(layer.rows);
    const bool same = by_default != nullptr && best == by_default;
    table.row({std::to_string(layer.count), us_text(by_default), us_text(best),
               by_default != nullptr ? fmt::format("{:.2f}", by_default->median_us / best->median_us) : "-",
               by_default != nullptr ? shortened(format_name(*by_default), kChoiceWidth) : "-",
               same              ? "the same"
               : best != nullptr ? shortened(format_name(*best), kChoiceWidth)
                                 : "-",
               shortened(layer.origin, kOriginWidth), shortened(layer.call, kCallWidth)});
  }
  if (!report.layers.empty()) print_text(table.str());
}

void print_report(const Engine& engine, const std::vector<TunedShapes>& all, int64_t merged,
                  const std::string& database) {
  for (const TunedShapes& one : all) {
    if (!one.symbols.empty()) print_text(symbols_text(one.symbols));
    print_layers(one.report);
    print_layers(one.kernels);
  }
  const Summed sum = sum_reports(all, &TunedShapes::report), kernels = sum_reports(all, &TunedShapes::kernels);
  print_text(fmt::format(
      "{}; {} measured, {} reused, {} failed, {} merged; {:.1f} s{}", runs_on(engine), sum.measured + kernels.measured,
      sum.reused + kernels.reused, sum.failed + kernels.failed, merged, sum.seconds + kernels.seconds,
      sum.finished && kernels.finished ? "" : "; the time was up, another `fusec tune` goes on from here"));
  if (const int64_t elsewhere = sum.elsewhere + kernels.elsewhere; elsewhere > 0) {
    print_text(
        fmt::format("calls and kernels left to other shards: {}; when all are done: fusec tune --merge their "
                    "databases, and once more without --shard, which tries the whole model",
                    elsewhere));
  }
  print_text(fmt::format(
      "convolutions and matrix products: {:.1f} us by the default algorithms, {:.1f} us by the fastest ({:+.1f}%)",
      sum.heuristic_us, sum.tuned_us, sum.heuristic_us > 0 ? 100 * (sum.tuned_us / sum.heuristic_us - 1) : 0.0));
  for (const TunedShapes& one : all) {
    if (one.check.tried == 0) continue;
    print_text(
        fmt::format("runs of the model{}: {:.1f} us by the default algorithms, {:.1f} us with what is new; of {} tried "
                    "in it, {} left to the default algorithm",
                    one.symbols.empty() ? "" : ", " + symbols_text(one.symbols), one.check.default_us,
                    one.check.tuned_us, one.check.tried, one.check.refused));
  }
  print_text(
      fmt::format("generated kernels with several candidates: {:.1f} us by the first choice, {:.1f} us by the "
                  "fastest ({:+.1f}%, geometric mean {:+.1f}%)",
                  kernels.heuristic_us, kernels.tuned_us,
                  kernels.heuristic_us > 0 ? 100 * (kernels.tuned_us / kernels.heuristic_us - 1) : 0.0,
                  100 * (kernels.mean() - 1)));
  if (const double spread = std::max(sum.spread, kernels.spread); spread > kBusy) {
    print_text(fmt::format("times vary by {:.0f}%: the machine has other work to do; measure --again when it has not",
                           100 * spread));
  }
  print_text(database.empty() ? "the times are not stored" : "times: " + database);
}

Result<int64_t> merge_databases(const TuneFlags& flags, const Options& options) {
  if (flags.merge.empty()) return 0;
  const std::string path = runtime::tuning_path(options);
  if (path.empty())
    return Status(StatusCode::invalid_argument, "--merge needs a database to merge into; give --tuning-db FILE");
  FUSEC_ASSIGN(const auto to, TuningDatabase::open_to_write(path, runtime::make_warn(options)));
  int64_t taken = 0;
  for (const std::string& from : flags.merge) {
    auto other = TuningDatabase::open(from);
    if (!other.ok()) return Status(StatusCode::invalid_argument, "--merge " + from + ": " + other.status().message());
    FUSEC_ASSIGN(const int64_t rows, to->merge(**other));
    taken += rows;
  }
  return taken;
}

Result<bool> serve(const TuneFlags& flags) {
  FUSEC_ASSIGN(const Options options, parse_options(flags));
  FUSEC_ASSIGN(const runtime::Machine machine, runtime::open_machine(options));
  const runtime::Tuning tuning(options, machine.target, [] { return std::string(); });
  const auto timer = runtime::make_candidate_timer(options, machine, tuning.flush_bytes());
  FUSEC_TRY(runtime::serve_candidates(STDIN_FILENO, STDOUT_FILENO, *timer));
  return true;
}

Result<TunedShapes> tune_shapes(const Engine& engine, runtime::Tuning& tuning, KernelTuning& kernels,
                                const Loaded& loaded, const TuneFlags& flags, const runtime::Shard& shard,
                                int64_t batch, double seconds) {
  TunedShapes out;
  FUSEC_ASSIGN(const Request request, parse_request(loaded.model, flags));
  FUSEC_ASSIGN(out.symbols, solve_symbols(loaded.model, request, batch));
  const runtime::EngineState& state = *engine.state();
  FUSEC_ASSIGN(const std::vector<TensorShape> shapes, input_shapes(loaded.model, out.symbols));
  FUSEC_ASSIGN(const runtime::Bindings bindings, runtime::bind_symbols(state.program(), shapes));
  FUSEC_ASSIGN(const runtime::ResolvedProgram resolved, runtime::resolve(state.program(), bindings));
  Progress progress{Progress::Steps()};
  FUSEC_ASSIGN(out.report,
               runtime::tune(*state.loaded, resolved, state.threads, tuning, {seconds, flags.quick, flags.again, shard},
                             [&](std::size_t done, std::size_t all, const TunedLayer& layer) {
                               progress.step(done, all, layer.origin);
                             }));
  const auto left = [&](double spent) { return seconds > 0 ? std::max(seconds - spent, 1e-9) : 0; };
  if (shard.count == 1) {  // a part of the picks says little of the whole model
    FUSEC_ASSIGN(const std::vector<Tensor> inputs, make_inputs(loaded.model, request, out.symbols));
    FUSEC_ASSIGN(out.check,
                 runtime::check_in_model(state, bindings, inputs, tuning, left(out.report.seconds), out.report));
    out.report.seconds += out.check.seconds;
  }
  FUSEC_ASSIGN(out.kernels, runtime::tune_kernels(kernels.program, bindings, *kernels.timer, *kernels.tuning,
                                                  {left(out.report.seconds), flags.quick, flags.again, shard},
                                                  [&](std::size_t done, std::size_t all, const TunedLayer& layer) {
                                                    progress.step(done, all, layer.origin);
                                                  }));
  return out;
}

Result<bool> use_file(const TuneFlags& flags) {
  if (!flags.model.empty() || !flags.merge.empty())
    return Status(StatusCode::invalid_argument, "--list, --export and --prune take no model and no --merge");
  FUSEC_ASSIGN(const Options options, parse_options(flags));
  TuningFileFlags file = flags.file;
  file.json = flags.json, file.verbose = flags.verbose;
  FUSEC_TRY(use_tuning_file(file, runtime::tuning_path(options), options));
  return true;
}

Result<bool> tune(const TuneFlags& flags) {
  if (flags.serve) return serve(flags);
  if (flags.file.any()) return use_file(flags);
  if (flags.model.empty() && flags.merge.empty()) {
    return Status(StatusCode::invalid_argument,
                  "tune needs a model, or databases to --merge, or one of --list, --export and --prune; see fusec tune "
                  "--help");
  }
  if (!(flags.time_limit >= 0))
    return Status(StatusCode::invalid_argument, "--time-limit is a number of seconds, 0 for none");
  runtime::Shard shard;
  if (!flags.shard.empty()) {
    FUSEC_ASSIGN(shard, parse_shard(flags.shard, [](const char* name) { return std::getenv(name); }));
  }
  FUSEC_ASSIGN(Options options, parse_options(flags));
  if (options.batch_invariant)
    return Status(StatusCode::invalid_argument, "tune: --batch-invariant looks at no measured times");
  Options picking = options;
  picking.strategy = Strategy::cached;
  options.strategy = Strategy::heuristic;  // of the engine, which is only a list of calls here
  FUSEC_ASSIGN(const int64_t merged, merge_databases(flags, options));
  const std::string database = runtime::tuning_path(options);
  if (flags.model.empty()) {
    if (flags.json) {
      print(Json{{"database", database}, {"merged", merged}});
    } else {
      print_text(fmt::format("{} rows merged into {}", merged, database));
    }
    return true;
  }
  std::vector<int64_t> batches = {0};
  if (!flags.batch.empty()) {
    FUSEC_ASSIGN(batches, parse_integers(flags.batch, ',', "--batch"));
  }
  FUSEC_ASSIGN(const Loaded loaded, load_model(flags));
  FUSEC_ASSIGN(const Engine engine, compile_model(loaded.model, options));
  tell_engine(engine, flags);
  FUSEC_ASSIGN(const std::unique_ptr<KernelTuning> kernels, prepare_kernels(loaded.model, flags, flags.isolated));
  const runtime::EngineState& state = *engine.state();
  runtime::Tuning tuning(picking, state.target, *state.loaded, state.threads);
  if (shard.count > 1 && !database.empty())  // to be merged, also where this part is empty
    FUSEC_TRY(TuningDatabase::open_to_write(database, runtime::make_warn(options)).status());
  std::vector<TunedShapes> all;
  double spent = 0;
  for (const int64_t batch : batches) {
    // When the limit is used up, measured times of the remaining batches are still shown.
    const double left = flags.time_limit > 0 ? std::max(flags.time_limit - spent, 1e-9) : 0;
    FUSEC_ASSIGN(TunedShapes one, tune_shapes(engine, tuning, *kernels, loaded, flags, shard, batch, left));
    spent += one.report.seconds + one.kernels.seconds;
    all.push_back(std::move(one));
  }
  if (flags.json) {
    print_json(engine, all, merged, database, tuning, *kernels);
  } else {
    print_report(engine, all, merged, database);
  }
  return true;
}

}  // namespace

Command tune_command() {
  auto flags = std::make_shared<TuneFlags>();
  return {
      "tune",
      "time every algorithm that the libraries have for a model's convolutions, matrix products and attention, and the "
      "candidates of its generated kernels",
      "  fusec tune model.onnx --random-weights 1\n"
      "  fusec tune model.onnx --batch 1,8,32 --time-limit 300     stops after 5 minutes; run it again to go on\n"
      "  fusec tune model.onnx --quick --json                      fewer runs of each algorithm\n"
      "  mpirun -n 4 sh -c 'fusec tune model.onnx --shard auto --tuning-db part$OMPI_COMM_WORLD_RANK.sqlite'\n"
      "  fusec tune --merge other.sqlite                           takes over times of an equal machine\n"
      "  fusec tune --list -v --only sm_90                         what is known, of one kind of GPU\n"
      "  fusec tune --export times.sqlite                          a copy to --merge on an equal machine\n"
      "  fusec tune --prune failures                               failed algorithms are tried again\n"
      "  fusec tune --prune 90d                                    forgets what was measured before that\n"
      "\nTimes and failures are kept in the tuning database, which later runs of any model read by themselves\n"
      "(--strategy cached). What is known is not measured again. Interrupting it loses the algorithm at hand.",
      [flags](Flags& f) {
        f.argument("model", flags->model, "an .onnx model, or the text of a graph (.fir)", false);
        declare_common(f, *flags, kEverything & ~kRuns);
        f.option("--batch", flags->batch, "1,7,64: each of these");
        f.option("--time-limit", flags->time_limit, "seconds after which no algorithm is begun (default: none)");
        f.flag("--quick", flags->quick, "fewer runs of each algorithm");
        f.flag("--again", flags->again, "measure what is known too: after a run on a busy machine, say");
        f.flag("--isolated", flags->isolated,
               "time candidates of generated kernels in a process of their own, as is done for a GPU");
        f.flag("--serve-candidates", flags->serve, "be that process: answer requests from stdin");
        f.option("--shard", flags->shard,
                 "I/N: measure only part I (0 to N-1) of N, as each of N processes does; auto or auto/N: the part that "
                 "mpirun, srun, torchrun or a Kubernetes job gives this process");
        f.option("--merge", flags->merge, "FILE: first takes over the rows of another database; may be given again");
        f.flag("--list", flags->file.list, "show the database in place of measuring; -v: every call");
        f.option("--export", flags->file.export_to, "FILE: write a copy of the database, which must be new");
        f.option("--prune", flags->file.prune,
                 "failures, 90d (measured more than 90 days ago) or all: remove these rows, not figures of machines");
        f.option("--only", flags->file.only,
                 "TEXT: of --list, --export and --prune: rows whose scope or call contains it");
      },
      [flags] { return tune(*flags); }};
}

}  // namespace fusec::tool

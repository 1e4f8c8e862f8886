// SPDX-License-Identifier: Apache-2.0
// Implements `fusec tune`: compiles a model, measures the algorithms of its convolutions and matmuls with the tuner,
// and stores the times in the tuning database. The Engine is compiled with Strategy::heuristic, because it only serves
// to list the calls.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "fusec/device.h"
#include "runtime/plan/state.h"
#include "runtime/plan/tuner.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/common.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/model_file.h"

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
  double time_limit = 0;
  bool quick = false, again = false;
};

// One set of shapes.
struct TunedShapes {
  Symbols symbols;
  TuneReport report;
};

// One line of stderr, where that is a terminal.
class TuningBar {
 public:
  ~TuningBar() {
    if (shown_) std::fprintf(stderr, "\r%*s\r", kBarLine, "");
  }
  void show(std::size_t done, std::size_t all, const std::string& what) {
    if (!isatty(STDERR_FILENO)) return;
    shown_ = true;
    const auto filled = static_cast<int>(all > 0 ? kBar * done / all : kBar);
    const std::string bar =
        std::string(static_cast<std::size_t>(filled), '#') + std::string(kBar - static_cast<std::size_t>(filled), '.');
    const std::string line = fmt::format("[{}] {}/{} {}", bar, done, all, shortened(what, 40));
    std::fprintf(stderr, "\r%-*s", kBarLine, line.c_str());
    std::fflush(stderr);
  }

 private:
  static constexpr std::size_t kBar = 24;
  static constexpr int kBarLine = 78;
  bool shown_ = false;
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
  int64_t measured = 0, reused = 0, failed = 0;
  double seconds = 0, heuristic_us = 0, tuned_us = 0, spread = 0;
  bool finished = true;
};

Summed sum_reports(const std::vector<TunedShapes>& all) {
  Summed sum;
  for (const TunedShapes& one : all) {
    sum.measured += one.report.measured, sum.reused += one.report.reused, sum.failed += one.report.failed;
    sum.seconds += one.report.seconds;
    sum.finished = sum.finished && one.report.finished;
    sum.spread = std::max(sum.spread, runtime::typical_spread(one.report));
    const runtime::TuneTotals totals = runtime::totals(one.report);
    sum.heuristic_us += totals.default_us, sum.tuned_us += totals.best_us;
  }
  return sum;
}

void print_json(const Engine& engine, const std::vector<TunedShapes>& all, int64_t merged,
                const std::string& database) {
  const Summed sum = sum_reports(all);
  Json json = {{"device", to_string(engine.device())},
               {"database", database},
               {"merged", merged},
               {"measured", sum.measured},
               {"reused", sum.reused},
               {"failed", sum.failed},
               {"seconds", sum.seconds},
               {"finished", sum.finished},
               {"heuristic_us", sum.heuristic_us},
               {"tuned_us", sum.tuned_us},
               {"spread", sum.spread},
               {"scope", engine.state()->tuning().scope()}};
  json["layers"] = Json::array();
  for (const TunedShapes& one : all) {
    for (const TunedLayer& layer : one.report.layers) json["layers"].push_back(make_json(layer, one.symbols));
  }
  print(json);
}

std::string us_text(const TuningRow* row) { return row == nullptr ? "-" : fmt::format("{:.1f}", row->median_us); }

void print_layers(const TunedShapes& shapes) {
  Table table({"count", "default us", "best us", "speedup", "default", "fastest", "step", "call"});
  for (const TunedLayer& layer : shapes.report.layers) {
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
  if (!shapes.symbols.empty()) print_text(symbols_text(shapes.symbols));
  print_text(table.str());
}

void print_report(const Engine& engine, const std::vector<TunedShapes>& all, int64_t merged,
                  const std::string& database) {
  for (const TunedShapes& one : all) print_layers(one);
  const Summed sum = sum_reports(all);
  print_text(fmt::format("{}; {} measured, {} reused, {} failed, {} merged; {:.1f} s{}", runs_on(engine), sum.measured,
                         sum.reused, sum.failed, merged, sum.seconds,
                         sum.finished ? "" : "; the time was up, another `fusec tune` goes on from here"));
  print_text(fmt::format(
      "convolutions and matrix products: {:.1f} us by the default algorithms, {:.1f} us by the fastest ({:+.1f}%)",
      sum.heuristic_us, sum.tuned_us, sum.heuristic_us > 0 ? 100 * (sum.tuned_us / sum.heuristic_us - 1) : 0.0));
  if (sum.spread > kBusy) {
    print_text(fmt::format("times vary by {:.0f}%: the machine has other work to do; measure --again when it has not",
                           100 * sum.spread));
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

Result<TunedShapes> tune_shapes(const Engine& engine, const Loaded& loaded, const TuneFlags& flags, int64_t batch,
                                double seconds) {
  TunedShapes out;
  FUSEC_ASSIGN(const Request request, parse_request(loaded.model, flags));
  FUSEC_ASSIGN(out.symbols, solve_symbols(loaded.model, request, batch));
  const runtime::EngineState& state = *engine.state();
  FUSEC_ASSIGN(const std::vector<TensorShape> shapes, input_shapes(loaded.model, out.symbols));
  FUSEC_ASSIGN(const runtime::Bindings bindings, runtime::bind_symbols(state.program(), shapes));
  FUSEC_ASSIGN(const runtime::ResolvedProgram resolved, runtime::resolve(state.program(), bindings));
  TuningBar bar;
  FUSEC_ASSIGN(out.report, runtime::tune(*state.loaded, resolved, state.threads, state.tuning(),
                                         {seconds, flags.quick, flags.again},
                                         [&](std::size_t done, std::size_t all, const TunedLayer& layer) {
                                           bar.show(done, all, layer.origin);
                                         }));
  return out;
}

Result<bool> tune(const TuneFlags& flags) {
  if (flags.model.empty() && flags.merge.empty()) {
    return Status(StatusCode::invalid_argument, "tune needs a model, or databases to --merge; see fusec tune --help");
  }
  if (!(flags.time_limit >= 0))
    return Status(StatusCode::invalid_argument, "--time-limit is a number of seconds, 0 for none");
  FUSEC_ASSIGN(Options options, parse_options(flags));
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
  std::vector<TunedShapes> all;
  double spent = 0;
  for (const int64_t batch : batches) {
    // When the limit is used up, measured times of the remaining batches are still shown.
    const double left = flags.time_limit > 0 ? std::max(flags.time_limit - spent, 1e-9) : 0;
    FUSEC_ASSIGN(TunedShapes one, tune_shapes(engine, loaded, flags, batch, left));
    spent += one.report.seconds;
    all.push_back(std::move(one));
  }
  if (flags.json) {
    print_json(engine, all, merged, database);
  } else {
    print_report(engine, all, merged, database);
  }
  return true;
}

}  // namespace

Command tune_command() {
  auto flags = std::make_shared<TuneFlags>();
  return {"tune", "time every algorithm that the libraries have for a model's convolutions and matrix products",
          "  fusec tune model.onnx --random-weights 1\n"
          "  fusec tune model.onnx --batch 1,8,32 --time-limit 300     stops after 5 minutes; run it again to go on\n"
          "  fusec tune model.onnx --quick --json                      fewer runs of each algorithm\n"
          "  fusec tune --merge other.sqlite                           takes over times of an equal machine\n"
          "\nTimes and failures are kept in the tuning database, which later runs of any model read by themselves\n"
          "(--strategy cached). What is known is not measured again. Interrupting it loses the algorithm at hand.",
          [flags](Flags& f) {
            f.argument("model", flags->model, "an .onnx model, or the text of a graph (.fir)", false);
            declare_common(f, *flags, kEverything & ~kRuns);
            f.option("--batch", flags->batch, "1,7,64: each of these");
            f.option("--time-limit", flags->time_limit, "seconds after which no algorithm is begun (default: none)");
            f.flag("--quick", flags->quick, "fewer runs of each algorithm");
            f.flag("--again", flags->again, "measure what is known too: after a run on a busy machine, say");
            f.option("--merge", flags->merge,
                     "FILE: first takes over the rows of another database; may be given again");
          },
          [flags] { return tune(*flags); }};
}

}  // namespace fusec::tool

// SPDX-License-Identifier: Apache-2.0
// Implements `fusec bench` for one model: start-up times, run times for each batch and, for plans without library
// calls, the score against a copy of as many bytes. `--patterns`, `--save` and `--against` are handled by
// bench_patterns.cpp and bench_gate.cpp.

#include <fmt/format.h>

#include <algorithm>

#include "fusec/device.h"
#include "fusec/session.h"
#include "runtime/plan/state.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/measure/gpu_baseline.h"
#include "runtime/tool/measure/library_sum.h"
#include "runtime/tool/steps.h"

namespace fusec::tool {
namespace {

struct BenchRow {
  int64_t batch = 0;  // 0: not given
  Symbols symbols;
  PlanStats plan;
  int64_t bytes = 0;  // inputs and outputs, each once
  std::vector<double> us;
  double copy_us = 0;
  std::optional<double> score;
  std::optional<HostTime> host;  // of a GPU
  int64_t compiled_kernels = 0;
  std::optional<LibrarySum> library_sum;
};

int64_t total_bytes(const std::vector<Tensor>& tensors) {
  int64_t sum = 0;
  for (const Tensor& t : tensors) sum += static_cast<int64_t>(t.bytes());
  return sum;
}

// The baseline: a copy of as many bytes on the Engine's device.
struct Yardstick {
  std::optional<CopySpeed> cpu;
  std::unique_ptr<GpuBaseline> gpu;

  static Result<Yardstick> make(const Front& front, const Engine& engine, const Options& options) {
    Yardstick baseline;
    if (engine.device().kind == TargetKind::cuda) {
      FUSEC_ASSIGN(baseline.gpu, GpuBaseline::make(options, front.compile));
    } else {
      FUSEC_ASSIGN(baseline.cpu, CopySpeed::make(0, engine.threads()));
    }
    return baseline;
  }
};

// Measures wall-clock time with one synchronization per run. Caches are as the previous run left them.
Status measure_on_gpu(const Call& call, Session& session, std::span<const Tensor> inputs, std::vector<Tensor> outputs,
                      GpuBaseline& copy, const Budget& budget, BenchRow& row) {
  row.us = time_runs(call, budget);
  FUSEC_ASSIGN(row.host, copy.host_us(session, inputs, outputs));
  FUSEC_ASSIGN(row.copy_us, copy.wall_copy_us(row.bytes));
  if (row.plan.library == 0) row.score = row.copy_us / median(row.us);
  return {};
}

// Does one run that must succeed, then times further runs.
Status measure(Session& session, std::span<const Tensor> inputs, const std::vector<Tensor>& outputs,
               Yardstick& baseline, const Budget& budget, BenchRow& row) {
  FUSEC_TRY(session.run_bound());
  Status failed;
  const Call call = [&] {
    if (Status status = session.run_bound(); !status.ok()) failed = std::move(status);
  };
  if (baseline.gpu) {
    FUSEC_TRY(measure_on_gpu(call, session, inputs, outputs, *baseline.gpu, budget, row));
    return failed;
  }
  CopySpeed& copy = *baseline.cpu;
  FUSEC_TRY(copy.reserve(row.bytes));
  if (row.plan.library == 0) {
    Paired paired = time_paired(call, copy, row.bytes, budget);
    row.us = std::move(paired.us);
    row.copy_us = paired.copy_us;
    row.score = paired.score;
  } else {
    row.us = time_runs(call, budget);
    row.copy_us = copy.best_us(copy.fastest(row.bytes), row.bytes, 5);
  }
  return failed;
}

Result<LibrarySum> measure_library_sum(const Engine& engine, const Symbols& symbols, std::span<const Tensor> inputs,
                                       std::span<const Tensor> outputs, const BenchFlags& flags) {
  FUSEC_ASSIGN(const runtime::PlanPtr plan, engine.state()->plan(runtime::Bindings(symbols)));
  const int64_t rotate = flags.rotate_mb > 0 ? flags.rotate_mb * 1'000'000 : engine.target().last_level_cache / 4 * 5;
  return library_sum(plan, inputs, outputs, rotate, flags.budget());
}

Result<BenchRow> bench_batch(const Loaded& loaded, Session& session, Yardstick& baseline, int64_t batch,
                             const BenchFlags& flags) {
  BenchRow row;
  row.batch = batch;
  FUSEC_ASSIGN(const Request request, parse_request(loaded.model, flags));
  FUSEC_ASSIGN(row.symbols, solve_symbols(loaded.model, request, batch));
  const Engine& engine = session.engine();
  FUSEC_ASSIGN(const std::vector<Tensor> made, make_inputs(loaded.model, request, row.symbols));
  FUSEC_ASSIGN(const std::vector<Tensor> inputs, on_device(engine, made));
  FUSEC_ASSIGN(const std::vector<TensorShape> shapes, input_shapes(loaded.model, row.symbols));
  FUSEC_TRY(engine.plan(shapes).status());
  engine.wait_for_specialized();  // what is measured is what later runs are
  FUSEC_ASSIGN(row.plan, engine.plan(shapes));
  FUSEC_ASSIGN(const std::vector<TensorShape> out_shapes, session.output_shapes(shapes));
  FUSEC_ASSIGN(const std::vector<Tensor> outputs, make_outputs(engine, out_shapes));
  row.bytes = total_bytes(inputs) + total_bytes(outputs);
  FUSEC_TRY(session.bind_io(inputs, outputs));
  FUSEC_TRY(measure(session, inputs, outputs, baseline, flags.budget(), row));
  row.compiled_kernels = engine.stats().compiled_kernels;
  if (flags.library_sum) {
    FUSEC_ASSIGN(row.library_sum, measure_library_sum(engine, row.symbols, inputs, outputs, flags));
  }
  if (flags.steps) {
    FUSEC_ASSIGN(row.plan, session.profile(inputs));
  }
  return row;
}

Json make_json(const BenchRow& row, bool steps) {
  Json json;
  if (row.batch > 0) json["batch"] = row.batch;
  json.update(Json{{"symbols", row.symbols},
                   {"median_ms", median(row.us) / 1e3},
                   {"p95_ms", percentile(row.us, 0.95) / 1e3},
                   {"min_ms", percentile(row.us, 0) / 1e3},
                   {"runs", row.us.size()},
                   {"launches", row.plan.launches},
                   {"specialized", row.plan.specialized},
                   {"bytes", row.bytes},
                   {"moved_bytes", row.plan.moved_bytes},
                   {"arena_bytes", row.plan.arena_bytes},
                   {"bind_ms", row.plan.bind_ms},
                   {"copy_ms", row.copy_us / 1e3},
                   {"score", nullptr},
                   {"compiled_kernels", row.compiled_kernels}});
  if (row.score) json["score"] = *row.score;
  if (row.host) json["host_us"] = row.host->queued, json["host_after_wait_us"] = row.host->after_wait;
  if (row.library_sum) json["library_sum"] = make_json(*row.library_sum);
  if (steps) json["steps"] = steps_json(row.plan);
  return json;
}

// Milliseconds by the rules of the JSON contract: neither holds weights nor the device's own start.
struct StartUp {
  double compile_ms = 0, ready_ms = 0, weights_ms = 0, device_ms = 0;
};

void print_json(const Engine& engine, const StartUp& start, const std::vector<BenchRow>& rows,
                const BenchFlags& flags) {
  const EngineStats& stats = engine.stats();
  Json json = {{"device", to_string(engine.device())}, {"target", engine.target().name}, {"threads", engine.threads()}};
  json.update(make_json(rows.front(), flags.steps));
  json.erase("batch");
  json.update(Json{{"compile_ms", start.compile_ms},
                   {"ready_ms", start.ready_ms},
                   {"weights_ms", start.weights_ms},
                   {"device_ms", start.device_ms},
                   {"compiled_kernels", stats.compiled_kernels},
                   {"cached_kernels", stats.cached_kernels},
                   {"shared_kernels", stats.shared_kernels},
                   {"server_kernels", stats.server_kernels},
                   {"damaged_entries", stats.damaged_entries},
                   {"distinct_kernels", stats.distinct_kernels}});
  Json stages = Json::object();
  for (const StageTime& stage : stats.stages) stages[stage.stage] = stage.ms;
  json["stages_ms"] = stages;
  json["batches"] = Json::array();
  for (const BenchRow& row : rows) json["batches"].push_back(make_json(row, flags.steps));
  print(json);
}

void print_report(const Engine& engine, const StartUp& start, const std::vector<BenchRow>& rows,
                  const BenchFlags& flags) {
  const EngineStats& stats = engine.stats();
  print_text(
      fmt::format("{}; compile {:.1f} ms, ready {:.1f} ms, weights {:.1f} ms, device {:.1f} ms; kernels: {} = {} "
                  "compiled + {} cached",
                  runs_on(engine), start.compile_ms, start.ready_ms, start.weights_ms, start.device_ms,
                  stats.distinct_kernels, stats.compiled_kernels, stats.cached_kernels));
  if (flags.verbose) {
    for (const StageTime& stage : stats.stages) print_text(fmt::format("  {:<10} {:8.2f} ms", stage.stage, stage.ms));
  }
  Table table({"symbols", "median ms", "p95 ms", "min ms", "runs", "launches", "in + out", "copy ms", "score"});
  for (const BenchRow& row : rows) {
    table.row({row.symbols.empty() ? "-" : symbols_text(row.symbols), fmt::format("{:.4f}", median(row.us) / 1e3),
               fmt::format("{:.4f}", percentile(row.us, 0.95) / 1e3),
               fmt::format("{:.4f}", percentile(row.us, 0) / 1e3), std::to_string(row.us.size()),
               std::to_string(row.plan.launches), bytes_text(row.bytes), fmt::format("{:.4f}", row.copy_us / 1e3),
               row.score ? fmt::format("{:.1f}%", 100 * *row.score) : "-"});
  }
  print_text(table.str());
  for (const BenchRow& row : rows) {
    if (row.host) {
      print_text(fmt::format("{}the calling thread spends {:.1f} us on a run, {:.1f} after waiting for the one before",
                             row.symbols.empty() ? "" : symbols_text(row.symbols) + ": ", row.host->queued,
                             row.host->after_wait));
    }
    if (row.library_sum) print_text("\n" + symbols_text(row.symbols) + "\n" + report(*row.library_sum));
  }
  if (!flags.steps) return;
  for (const BenchRow& row : rows) print_text("\n" + symbols_text(row.symbols) + "\n" + steps_table(row.plan, true));
}

Result<bool> bench_model(const Front& front, const BenchFlags& flags) {
  const double before_device = process_ms();
  FUSEC_ASSIGN(const Options options, parse_options(flags));  // looks for a GPU where none is named
  StartUp start;
  start.device_ms = process_ms() - before_device;
  if (flags.library_sum && options.device != "cpu") {
    return Status(StatusCode::unsupported, "--library-sum measures the CPU; add --device cpu");
  }
  std::vector<int64_t> batches = {0};
  if (!flags.batch.empty()) {
    FUSEC_ASSIGN(batches, parse_integers(flags.batch, ',', "--batch"));
  }
  FUSEC_ASSIGN(const Loaded loaded, front.load(flags));
  FUSEC_ASSIGN(const Request request, parse_request(loaded.model, flags));
  FUSEC_ASSIGN(const Symbols symbols, solve_symbols(loaded.model, request, batches.front()));
  FUSEC_ASSIGN(const std::vector<TensorShape> shapes, input_shapes(loaded.model, symbols));
  FUSEC_ASSIGN(const Engine engine, make_engine(front, loaded, options, symbols));
  FUSEC_ASSIGN(Session session, Session::create(engine));
  FUSEC_TRY(session.prepare(shapes));
  start.weights_ms = loaded.weights_ms + engine.stats().weights_ms;
  start.device_ms += engine.stats().device_ms;
  start.compile_ms = loaded.load_ms + engine.stats().compile_ms;
  start.ready_ms = process_ms() - start.weights_ms - start.device_ms;
  FUSEC_ASSIGN(Yardstick baseline, Yardstick::make(front, engine, options));
  std::vector<BenchRow> rows;
  for (const int64_t batch : batches) {
    FUSEC_ASSIGN(BenchRow row, bench_batch(loaded, session, baseline, batch, flags));
    rows.push_back(std::move(row));
  }
  if (flags.json) {
    print_json(engine, start, rows, flags);
  } else {
    print_report(engine, start, rows, flags);
  }
  return true;
}

// A flag of another form of bench would change nothing. `with`: what it goes with.
Status check_forms(const BenchFlags& flags, bool gate, bool several) {
  struct Row {
    const char* flag;
    bool given, fits;
    const char* with;
  };
  const Row rows[] = {
      {"--cycles", flags.cycles, several && !gate, "--patterns DIR alone"},
      {"--steps", flags.steps, !gate, "a model, or --patterns DIR alone"},
      {"--batch", !flags.batch.empty(), !several, "one model"},
      {"--library-sum", flags.library_sum, !several, "one model"},
      {"--rotate-mb", flags.rotate_mb != 0, flags.library_sum, "--library-sum"},
      {"--commit", !flags.commit.empty(), !flags.save.empty() || !flags.against.empty(),
       "--save FILE or --against FILE"},
      {"--shape", !flags.shapes.empty(), !gate, "one model, or --patterns DIR alone"},
      {"--input", !flags.inputs.empty(), !several, "one model"},
  };
  for (const Row& row : rows) {
    if (!row.given || row.fits) continue;
    return Status(StatusCode::invalid_argument, fmt::format("{} is for {}; leave it out", row.flag, row.with));
  }
  return {};
}

Result<bool> bench(const Front& front, const BenchFlags& flags) {
  const bool gate = !flags.against.empty() || !flags.save.empty();
  const bool several = !flags.patterns.empty() || (gate && !flags.models.empty());
  if (!gate && !flags.models.empty()) {
    return Status(StatusCode::invalid_argument,
                  "--models is for --against FILE and --save FILE; name one model as the argument");
  }
  if (flags.model.empty() != several || (gate && !several)) {
    return Status(StatusCode::invalid_argument,
                  gate ? "--against and --save need --patterns DIR or --models DIR, and no other model"
                       : "bench needs either a model or --patterns DIR; see fusec bench --help");
  }
  FUSEC_TRY(check_forms(flags, gate, several));
  if (!several) return bench_model(front, flags);
  if (front.compile == nullptr)
    return Status(StatusCode::invalid_argument, "a package is benched alone, without a list of models");
  return gate ? front.bench_gate(flags) : front.bench_patterns(flags);
}

}  // namespace

Command bench_command(const Front& front) {
  auto flags = std::make_shared<BenchFlags>();
  return {
      "bench", "time a model, or memory-bound patterns against the speed of copying",
      "  fusec bench model.onnx --random-weights 1\n"
      "  fusec bench model.onnx --batch 1,7,64 --json         one Engine and one Session for all batches\n"
      "  fusec bench model.onnx --steps                       time of every launch\n"
      "  fusec bench model.onnx --library-sum                 what the plan adds to its library calls\n"
      "  fusec bench --patterns patterns/ --duration 2        copy time / pattern time; 100% is as fast as copying\n"
      "  fusec bench --save F --patterns patterns/ --models models/     the speed gate: keep what this machine does "
      "now\n"
      "  fusec bench --against F --patterns patterns/ --models models/  later: exit code 1 when something is over 3% "
      "slower",
      [flags](Flags& f) {
        f.argument("model", flags->model, "an .onnx model, the text of a graph (.fir), or a package (.fsc)", false);
        declare_common(f, *flags);
        declare_package(f, *flags);
        f.option("--patterns", flags->patterns, "DIR: score every .onnx file in it (a file: that one)");
        f.option("--against", flags->against,
                 "FILE of --save: five rounds over --patterns and --models, compared with it");
        f.option("--save", flags->save, "FILE to keep the same rounds in");
        f.option("--models", flags->models,
                 "with these two: a model, or a folder of models; may be repeated. --precision f32,f16: each in both");
        f.option("--commit", flags->commit, "with --save: the commit to note in the file (./dev bench gives it)");
        f.flag("--cycles", flags->cycles, "with --patterns: core cycles per 16 elements of tasks whose data is cached");
        f.option("--batch", flags->batch, "1,7,64: each of these, in one process");
        f.option("--duration", flags->duration,
                 "seconds to measure, of each batch or pattern (default 1); twice where times vary");
        f.option("--time-limit", flags->time_limit,
                 "with --patterns: seconds after which no pattern is begun; each measures at most half of its part of "
                 "what is left (default: none)");
        f.option("--runs", flags->runs, "exactly so many runs instead");
        f.option("--warmup", flags->warmup, "runs before (default 3)");
        f.flag("--steps", flags->steps, "the time of every launch");
        f.flag("--library-sum", flags->library_sum,
               "each library call of the plan alone, in the fastest of its layouts, beside the whole model");
        f.option("--rotate-mb", flags->rotate_mb,
                 "with --library-sum: weights of calls alone use so much memory in turn (default 1.25 times the last "
                 "level cache)");
      },
      [front, flags] { return bench(front, *flags); }};
}

}  // namespace fusec::tool

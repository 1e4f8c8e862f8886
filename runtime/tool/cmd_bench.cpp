// SPDX-License-Identifier: Apache-2.0
// Implements `fusec bench` for one model: start-up times, run times for each batch and, for plans without library
// calls, the score against a copy of as many bytes. bench_report.cpp prints them, bench_change.cpp compares them with
// earlier ones. `--patterns`, `--save` and the `--against` of many models are handled by bench_patterns.cpp and
// bench_gate.cpp.

#include <fmt/format.h>

#include <algorithm>

#include "fusec/device.h"
#include "fusec/session.h"
#include "runtime/plan/state.h"
#include "runtime/tool/bench_row.h"
#include "runtime/tool/inputs.h"

namespace fusec::tool {
namespace {

constexpr int64_t kMaxSessions = 1024;

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

// The times of runs whose inputs and outputs lie on the host: each copies them to the GPU and back.
Result<std::vector<double>> time_transfers(const Engine& engine, const std::vector<Tensor>& inputs,
                                           const std::vector<TensorShape>& outputs, const BenchFlags& flags) {
  BenchFlags one = flags;
  one.sessions = 1;
  FUSEC_ASSIGN(SessionTimes times, time_sessions(engine, inputs, outputs, true, one));
  return std::move(times.us);
}

// Where the first axis of an input is a symbol, this is how many samples a run has.
std::optional<double> count_samples(const Model& model, const Symbols& symbols) {
  const Result<std::string> batch = batch_symbol(model);
  const auto found = batch.ok() ? symbols.find(*batch) : symbols.end();
  return found == symbols.end() ? std::nullopt : std::optional<double>(static_cast<double>(found->second));
}

// The times of several sessions; no copy is measured beside them.
Status measure_sessions(const Engine& engine, const std::vector<Tensor>& made, const std::vector<Tensor>& inputs,
                        const std::vector<TensorShape>& outputs, const BenchFlags& flags, BenchRow& row) {
  FUSEC_ASSIGN(SessionTimes times,
               time_sessions(engine, flags.transfers ? made : inputs, outputs, flags.transfers, flags));
  row.us = std::move(times.us);
  row.seconds = times.seconds;
  return {};
}

Status measure_steps(Session& session, const std::vector<Tensor>& inputs, const BenchFlags& flags, BenchRow& row) {
  FUSEC_ASSIGN(row.plan, session.profile(inputs));
  const Engine& engine = session.engine();
  FUSEC_ASSIGN(const runtime::PlanPtr plan, engine.state()->plan(runtime::Bindings(row.symbols)));
  FUSEC_ASSIGN(row.steps.work, find_work(*plan, engine.target()));
  if (row.steps.work.size() != row.plan.steps.size()) row.steps.work.resize(row.plan.steps.size());
  row.steps.top = flags.top;
  return {};
}

Result<BenchRow> bench_batch(const Loaded& loaded, Session& session, Yardstick& baseline, int64_t batch,
                             const BenchFlags& flags) {
  BenchRow row;
  row.batch = batch;
  FUSEC_ASSIGN(const Request request, parse_request(loaded.model, flags));
  FUSEC_ASSIGN(row.symbols, solve_symbols(loaded.model, request, batch));
  row.samples = count_samples(loaded.model, row.symbols);
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
  if (flags.sessions > 1) {
    FUSEC_TRY(measure_sessions(engine, made, inputs, out_shapes, flags, row));
  } else {
    FUSEC_TRY(session.bind_io(inputs, outputs));
    FUSEC_TRY(measure(session, inputs, outputs, baseline, flags.budget(), row));
    if (flags.transfers) {
      FUSEC_ASSIGN(row.transfer_us, time_transfers(engine, made, out_shapes, flags));
    }
  }
  row.compiled_kernels = engine.stats().compiled_kernels;
  if (flags.library_sum) {
    FUSEC_ASSIGN(row.library_sum, measure_library_sum(engine, row.symbols, inputs, outputs, flags));
  }
  if (flags.steps || flags.by_op) FUSEC_TRY(measure_steps(session, inputs, flags, row));
  return row;
}

// How far the slow tenth of the runs is from the middle one, of the batch where it is farthest.
double find_spread(const std::vector<BenchRow>& rows) {
  double most = 0;
  for (const BenchRow& row : rows) {
    const Distribution d = summarize(row.us);
    if (d.p50 > 0) most = std::max(most, d.p90 / d.p50 - 1);
  }
  return most;
}

// false: slower than --against.
Result<bool> print_all(const BenchReport& report, const BenchFlags& flags) {
  std::vector<RowChange> changes;
  if (!flags.against.empty()) {
    FUSEC_ASSIGN(changes, compare_with(flags.against, report, flags));
  }
  if (!report.doubts.empty()) warn("times may vary: " + report.doubts);
  if (flags.json) {
    Json json = make_json(report, flags);
    if (!changes.empty()) json.update(make_json(changes));
    print(json);
  } else {
    print_text(flags.csv ? make_csv(report, flags) : make_text(report, flags));
    if (!changes.empty() && !flags.csv) print_text("\n" + make_text(changes));
  }
  return std::none_of(changes.begin(), changes.end(), [](const RowChange& c) { return c.change.slower; });
}

Result<bool> bench_model(const Front& front, const BenchFlags& flags) {
  const double before_device = process_ms();
  FUSEC_ASSIGN(const Options options, parse_options(flags));  // looks for a GPU where none is named
  StartUp start;
  start.device_ms = process_ms() - before_device;
  if (flags.library_sum && options.device != "cpu") {
    return Status(StatusCode::unsupported, "--library-sum measures the CPU; add --device cpu");
  }
  if (flags.transfers && options.device == "cpu") {
    return Status(StatusCode::invalid_argument,
                  "--transfers is for a GPU: on the CPU nothing is copied; leave it out, or add --device cuda:0");
  }
  if (!flags.against.empty()) FUSEC_TRY(check_earlier(flags.against));
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
  BenchReport report{engine, start, {}, read_machine_state(engine.device()), {}, {}};
  for (const int64_t batch : batches) {
    FUSEC_ASSIGN(BenchRow row, bench_batch(loaded, session, baseline, batch, flags));
    report.rows.push_back(std::move(row));
  }
  report.after = read_machine_state(engine.device());
  report.doubts = doubts(engine.device(), report.before, report.after, find_spread(report.rows));
  return print_all(report, flags);
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
      {"--top", flags.top != 0, !several && flags.steps, "one model with --steps"},
      {"--by-op", flags.by_op, !several, "one model"},
      {"--transfers", flags.transfers, !several, "one model"},
      {"--sessions", flags.sessions != 1, !several, "one model"},
      {"--csv", flags.csv, !several && !flags.json, "one model, without --json"},
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
  const bool alone = !flags.model.empty() && flags.save.empty();  // --against is then an earlier --json
  const bool gate = !alone && (!flags.against.empty() || !flags.save.empty());
  const bool several = !flags.patterns.empty() || (gate && !flags.models.empty());
  if (flags.sessions < 1 || flags.sessions > kMaxSessions)
    return Status(StatusCode::invalid_argument, fmt::format("--sessions wants a count from 1 to {}", kMaxSessions));
  if (flags.top < 0) return Status(StatusCode::invalid_argument, "--top wants a count of at least 1");
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
      "  fusec bench model.onnx --steps --top 10 --by-op      time of the slowest launches, and of each op\n"
      "  fusec bench model.onnx --sessions 4                  throughput of four sessions side by side\n"
      "  fusec bench model.onnx --against before.json         before.json: what --json printed earlier\n"
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
                 "with --patterns and --models, FILE of --save: five rounds over them, compared with it; with a model, "
                 "FILE of an earlier --json: exit code 1 when the model is slower by over 3%, and not by chance");
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
        f.flag("--steps", flags->steps, "the time of every launch, with GB/s and GFLOP/s");
        f.option("--top", flags->top, "N: with --steps, the N slowest launches alone");
        f.flag("--by-op", flags->by_op, "sums over the launches of each op");
        f.flag("--transfers", flags->transfers,
               "of a GPU: times with inputs and outputs on the host as well, which each run copies");
        f.option(
            "--sessions", flags->sessions,
            "N sessions of one engine side by side, on a GPU on N streams: the rate of all together, and the times "
            "of one run (default 1)");
        f.flag("--csv", flags->csv, "one line for each batch, with a header");
        f.flag("--library-sum", flags->library_sum,
               "each library call of the plan alone, in the fastest of its layouts, beside the whole model");
        f.option("--rotate-mb", flags->rotate_mb,
                 "with --library-sum: weights of calls alone use so much memory in turn (default 1.25 times the last "
                 "level cache)");
      },
      [front, flags] { return bench(front, *flags); }};
}

}  // namespace fusec::tool

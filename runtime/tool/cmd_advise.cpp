// SPDX-License-Identifier: Apache-2.0
// Implements `fusec advise`: bounds of a model from measured layers and from the machine model, a measured run beside
// them, the gap between both in parts, and what to change.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "fusec/session.h"
#include "runtime/engine/model_check.h"
#include "runtime/plan/state.h"
#include "runtime/plan/tuner.h"
#include "runtime/tool/advise.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/kernel_tuning.h"
#include "runtime/tool/model_file.h"
#include "runtime/tool/step_facts.h"
#include "runtime/tool/steps.h"

namespace fusec::tool {
namespace {

constexpr int64_t kMinTraced = 9,
                  kMaxTraced = 50;  // of a round that are traced: what a run leaves is kept until its end
constexpr int kRunsAhead = 3;       // that say how many fit in --duration
constexpr int kProfileRounds = 5;
constexpr double kWorthSaying = 0.01;  // of the run: smaller gains are no advice
constexpr std::size_t kNamed = 5;      // missing layers that an error names

}  // namespace

Result<Shapes> make_shapes(const Subject& subject, int64_t batch) {
  Shapes out;
  FUSEC_ASSIGN(const Request request, parse_request(subject.loaded.model, subject.flags));
  FUSEC_ASSIGN(out.symbols, solve_symbols(subject.loaded.model, request, batch));
  FUSEC_ASSIGN(out.shapes, input_shapes(subject.loaded.model, out.symbols));
  FUSEC_ASSIGN(out.inputs, make_inputs(subject.loaded.model, request, out.symbols));
  return out;
}

Status refuse_missing(const std::vector<StepFacts>& steps, const AdviseFlags& flags) {
  const std::vector<std::size_t> missing = missing_layers(steps);
  if (missing.empty()) return {};
  std::string names;
  for (std::size_t i = 0; i < std::min(missing.size(), kNamed); ++i)
    names +=
        fmt::format("{}{} ({})", i > 0 ? "; " : "", steps[missing[i]].origin, shortened(steps[missing[i]].layer, 100));
  if (missing.size() > kNamed) names += fmt::format("; and {} more", missing.size() - kNamed);
  return Status(StatusCode::invalid_argument,
                fmt::format("the tuning database lacks {} layers of this model: {}. Measure them with: fusec advise {} "
                            "--measure, or with fusec tune",
                            missing.size(), names, flags.model));
}

RunSettings settings_of(const Subject& subject) {
  RunSettings run;
  run.gpu = subject.machine.device.kind == TargetKind::cuda;
  run.cuda_graph = subject.options.cuda_graph, run.fuses = subject.options.fuse;
  run.uses_rows = runtime::strategy_of(subject.options) == Strategy::cached;
  run.tf32 = subject.options.tf32, run.half = subject.options.precision && *subject.options.precision != DType::f32;
  run.allows_tf32 = subject.allowed.tf32, run.allows_half = subject.allowed.half;
  return run;
}

void complete(Advised& a, const RunTimes& times, const RunSettings& run) {
  a.library = library_bound(a.steps), a.fusion = fusion_bound(a.steps);
  a.gap = split_gap(times, a.steps);
  std::set<std::string> distinct;
  for (const StepFacts& step : a.steps) {
    if (step.layer.empty()) continue;
    ++a.layers;
    distinct.insert(step.layer);
  }
  a.distinct_layers = distinct.size();
  for (const Advice& one : make_advice(a.steps, a.gap, run, kWorthSaying * times.measured_us))
    a.advice.push_back({one, {}, {}});
}

namespace {

Result<AllowedTypes> parse_allowed(const std::string& text, bool gpu) {
  AllowedTypes out;
  if (text == "auto") return gpu ? AllowedTypes{true, true} : AllowedTypes{};
  for (const std::string& word : split(text, ',')) {
    if (word == "tf32") {
      out.tf32 = true;
    } else if (word == "f16") {
      out.half = true;
    } else if (word != "f32") {
      return Status(StatusCode::invalid_argument, "--allow takes auto, f32, tf32 and f16, not '" + word + "'");
    }
  }
  return out;
}

// On a GPU: cuDNN computes f32 convolutions channels first, and converts images in the other order, on each call. A
// CPU's calls have no f16, and oneDNN chooses the order by itself. Alone, with the caches emptied, a short call takes
// two to three times its time in a run of a GPU, so ratios of repeated calls say more.
runtime::Alternatives alternatives_of(const Subject& subject) {
  if (subject.machine.target.kind != TargetKind::cuda) return {};
  const bool is_narrow = subject.options.precision && *subject.options.precision != DType::f32;
  return {!is_narrow, subject.allowed.half && !is_narrow, true};
}

// What `fusec tune` does for these shapes, and calls in another order of images and in f16.
Status measure_layers(const Subject& subject, const std::vector<int64_t>& batches) {
  Options listing = subject.options, picking = subject.options;
  listing.strategy = Strategy::heuristic, picking.strategy = Strategy::cached;
  FUSEC_ASSIGN(const Engine engine, compile_model(subject.loaded.model, listing));
  FUSEC_ASSIGN(const std::unique_ptr<KernelTuning> kernels,
               prepare_kernels(subject.loaded.model, subject.flags, false));
  const runtime::EngineState& state = *engine.state();
  runtime::Tuning tuning(picking, state.target, *state.loaded, state.threads);
  int64_t measured = 0, reused = 0;
  for (const int64_t batch : batches) {
    FUSEC_ASSIGN(const Shapes shapes, make_shapes(subject, batch));
    FUSEC_ASSIGN(const runtime::Bindings bindings, runtime::bind_symbols(state.program(), shapes.shapes));
    FUSEC_ASSIGN(const runtime::ResolvedProgram resolved, runtime::resolve(state.program(), bindings));
    const runtime::TuneLimits limits{0, subject.flags.quick};
    FUSEC_ASSIGN(runtime::TuneReport calls, runtime::tune(*state.loaded, resolved, state.threads, tuning, limits));
    FUSEC_TRY(runtime::check_in_model(state, bindings, shapes.inputs, tuning, 0, calls).status());
    FUSEC_ASSIGN(const runtime::TuneReport own,
                 runtime::tune_kernels(kernels->program, bindings, *kernels->timer, *kernels->tuning, limits));
    FUSEC_ASSIGN(
        const runtime::TuneReport others,
        runtime::tune_alternatives(*state.loaded, resolved, state.threads, tuning, limits, alternatives_of(subject)));
    for (const auto* one : std::initializer_list<const runtime::TuneReport*>{&calls, &own, &others})
      measured += one->measured, reused += one->reused;
  }
  std::fprintf(stderr, "layers: %lld ways measured, %lld known before\n", static_cast<long long>(measured),
               static_cast<long long>(reused));
  return {};
}

// Runs of the profiler: those that are not traced tell the time of a run, and those that are, in turn with them where
// the device allows it, where that time goes. A run of another kind would have another time. Of several rounds the
// fastest one counts, by both kinds of runs: another program has disturbed it least.
Result<Profile> measure_run(const Engine& engine, const Shapes& shapes, const AdviseFlags& flags) {
  FUSEC_ASSIGN(Session session, Session::create(engine));
  FUSEC_ASSIGN(const std::vector<Tensor> inputs, on_device(engine, shapes.inputs));
  FUSEC_TRY(engine.plan(shapes.shapes).status());
  engine.wait_for_specialized();
  ProfileOptions options;
  options.counters = false, options.runs = flags.runs;
  options.warmup = std::max<int64_t>(flags.warmup, 0);
  if (flags.runs > 0) return session.profile(inputs, options);
  Status failed;
  const std::vector<double> us = time_runs(
      [&] {
        if (Status status = session.run(inputs).status(); !status.ok()) failed = std::move(status);
      },
      {0, kRunsAhead, 1});
  FUSEC_TRY(failed);
  const double pair_us = 2 * std::max(median(us), 1.0);  // a traced run and one that is not
  options.runs =
      std::clamp(static_cast<int64_t>(1e6 * flags.duration / (kProfileRounds * pair_us)), kMinTraced, kMaxTraced);
  FUSEC_ASSIGN(Profile best, session.profile(inputs, options));
  for (int round = 1; round < kProfileRounds; ++round) {
    FUSEC_ASSIGN(Profile profile, session.profile(inputs, options));
    if (profile.measured_us + profile.traced_us < best.measured_us + best.traced_us) best = std::move(profile);
  }
  return best;
}

// What the times of steps and gaps of traced runs are divided by. Of a GPU the profile has done that by its own ratio.
double slow_down(const Profile& profile) { return profile.source == "threads" ? profile.slow_down() : 1; }

RunTimes times_of(const Profile& profile) {
  return {profile.measured_us, (profile.gaps_us + profile.copies_us + profile.host_us) / slow_down(profile)};
}

// Of all steps of the plan; those that run once take no time of a run.
Result<std::vector<double>> step_times(const Profile& profile, const runtime::ResolvedProgram& resolved) {
  if (resolved.once + profile.launches.size() != resolved.steps.size())
    return Status(StatusCode::invalid_argument,
                  "advise: the run has other steps than the plan; leave --specialize out");
  std::vector<double> us(resolved.once);
  for (const LaunchProfile& launch : profile.launches) us.push_back(launch.info.us / slow_down(profile));
  return us;
}

// The options with the one change that the advice names; none where no flag makes it.
std::optional<Options> changed(const Advice& advice, Options options) {
  if (advice.flag == "--strategy cached") {
    options.strategy = Strategy::cached;
  } else if (advice.flag == "--precision f16") {
    options.precision = DType::f16;
  } else if (advice.flag == "--tf32") {
    options.tf32 = true;
  } else if (advice.flag == "--disable-pass channels_last") {
    options.disabled_passes.emplace_back("channels_last");
  } else if (advice.flag == "without --no-cuda-graph") {
    options.cuda_graph = true;
  } else if (advice.flag == "without --no-fusion") {
    options.fuse = true;
  } else {
    return std::nullopt;
  }
  return options;
}

// One call by the algorithm that was the fastest alone.
Result<double> gain_of_fastest(const Subject& subject, const Engine& engine, const Shapes& shapes,
                               const std::string& layer) {
  const runtime::EngineState& state = *engine.state();
  runtime::Tuning tuning(subject.options, state.target, *state.loaded, state.threads);
  FUSEC_ASSIGN(const runtime::Bindings bindings, runtime::bind_symbols(state.program(), shapes.shapes));
  FUSEC_ASSIGN(const runtime::ModelTimes times, runtime::time_fastest(state, bindings, shapes.inputs, tuning, {layer}));
  return times.by_default - times.picked;
}

Status check(const Subject& subject, const Engine& engine, const Shapes& shapes, double run_us, CheckedAdvice& advice) {
  if (subject.flags.no_check) {
    advice.not_checked = "--no-check";
    return {};
  }
  if (advice.part == Part::algorithm && advice.of_call && advice.flag.empty()) {
    FUSEC_ASSIGN(advice.measured_gain_us, gain_of_fastest(subject, engine, shapes, advice.layer));
    return {};
  }
  const std::optional<Options> options = changed(advice, subject.options);
  if (!options) {
    advice.not_checked = "no flag makes this change";
    return {};
  }
  FUSEC_ASSIGN(const Engine other, compile_model(subject.loaded.model, *options));
  FUSEC_ASSIGN(const Profile after, measure_run(other, shapes, subject.flags));
  advice.measured_gain_us = run_us - after.measured_us;
  return {};
}

// As bind has it: the first pick, or what the libraries take by themselves.
std::string taken_way(runtime::Tuning& tuning, const std::string& call) {
  if (tuning.strategy() == Strategy::reproducible) return "";
  if (const auto picks = tuning.picks(call); !picks.empty()) return picks[0].library + " " + picks[0].algorithm;
  std::vector<runtime::TuningRow> rows = tuning.rows(call);
  std::erase_if(rows, [&](const runtime::TuningRow& row) { return row.workspace > tuning.workspace_limit(); });
  const runtime::TuningRow* const row = runtime::default_row(rows);
  return row == nullptr ? "" : name_pick(*row);
}

Result<Advised> advise_shapes(const Subject& subject, const Engine& engine, int64_t batch) {
  Advised out;
  out.batch = batch;
  FUSEC_ASSIGN(const Shapes shapes, make_shapes(subject, batch));
  out.symbols = shapes.symbols;
  const runtime::EngineState& state = *engine.state();
  FUSEC_ASSIGN(const runtime::PlanPtr plan, state.plan(shapes.shapes));
  FUSEC_ASSIGN(const runtime::ResolvedProgram resolved, runtime::resolve(plan->loaded->program, plan->bindings));
  runtime::Tuning& tuning = state.tuning();
  runtime::Tuning kernel_tuning(
      subject.options, subject.machine.target, [&] { return runtime::kernel_scope(subject.options, subject.machine); },
      true);
  FactSources from{
      subject.stages.graph, subject.stages.partition, subject.stages.program, *plan->loaded, resolved, plan->bindings,
      state.target};
  from.threads = state.threads;
  from.warm_constants = runtime::keeps_constants_cached(plan->loaded->program, resolved, tuning);
  from.tf32 = subject.options.tf32, from.allowed = subject.allowed;
  from.workspace_limit = tuning.workspace_limit();
  from.call_rows = [&](const std::string& call) { return tuning.rows(call); };
  from.kernel_rows = [&](const std::string& call) { return kernel_tuning.rows(call); };
  from.taken_way = [&](const std::string& call) { return taken_way(tuning, call); };
  FUSEC_TRY(refuse_missing(collect_facts(from), subject.flags));
  FUSEC_ASSIGN(const Profile profile, measure_run(engine, shapes, subject.flags));
  FUSEC_ASSIGN(from.times, step_times(profile, resolved));
  out.source = profile.source, out.runs = profile.runs, out.traced_us = profile.traced_us;
  out.slow_down = slow_down(profile) * profile.device_slow_down();
  out.steps = collect_facts(from);
  complete(out, times_of(profile), settings_of(subject));
  for (CheckedAdvice& one : out.advice) FUSEC_TRY(check(subject, engine, shapes, profile.measured_us, one));
  return out;
}

void print_all(const Json& machine, const std::string& where, const std::vector<Advised>& all,
               const AdviseFlags& flags) {
  if (flags.json) {
    Json json = machine;
    json.update(make_json(all.front()));
    json.erase("batch");
    if (!flags.batch.empty()) json.update(sweep_json(all));
    json["batches"] = Json::array();
    for (const Advised& one : all) json["batches"].push_back(make_json(one));
    return print(json);
  }
  print_text(where);
  for (const Advised& one : all) print_text(report(one, flags.verbose));
  if (!flags.batch.empty()) print_text(sweep_report(all));
}

Result<bool> advise_elsewhere(Subject& subject, const std::vector<int64_t>& batches) {
  const AdviseFlags& flags = subject.flags;
  FUSEC_ASSIGN(const WhatIf rows, read_what_if(flags, subject.options));
  subject.machine.target = rows.target;
  subject.machine.device.kind = rows.target.kind;
  FUSEC_ASSIGN(subject.stages, runtime::run_stages(*subject.loaded.model.graph, rows.target, subject.options,
                                                   Stage::select, {}, {}, runtime::Listing::all));
  std::vector<Advised> all;
  for (const int64_t batch : batches) {
    FUSEC_ASSIGN(Advised one, advise_by_database(subject, rows, batch));
    all.push_back(std::move(one));
  }
  print_all({{"database", flags.database}, {"target", rows.target.name}, {"scope", rows.call_scope}},
            "by " + flags.database + ": " + rows.call_scope, all, flags);
  return true;
}

Status check_flags(const AdviseFlags& flags, const Options& options) {
  if (options.batch_invariant)
    return Status(StatusCode::invalid_argument, "advise: --batch-invariant looks at no measured times");
  if (!flags.database.empty() && flags.measure)
    return Status(StatusCode::invalid_argument, "--database is of another machine: --measure measures this one");
  if (flags.database.empty() && !flags.scope.empty())
    return Status(StatusCode::invalid_argument, "--scope is for --database; leave it out");
  return {};
}

Result<bool> advise(const AdviseFlags& flags) {
  FUSEC_ASSIGN(const Options options, parse_options(flags));
  FUSEC_TRY(check_flags(flags, options));
  std::vector<int64_t> batches = {0};
  if (!flags.batch.empty()) {
    FUSEC_ASSIGN(batches, parse_integers(flags.batch, ',', "--batch"));
  }
  Subject subject{flags, options, {}, {}, {}, {}};
  FUSEC_ASSIGN(subject.allowed, parse_allowed(flags.allow, options.device != "cpu"));
  FUSEC_ASSIGN(subject.loaded, load_model(flags));
  if (!flags.database.empty()) return advise_elsewhere(subject, batches);
  FUSEC_ASSIGN(subject.machine, runtime::open_machine(options));
  if (flags.measure) FUSEC_TRY(measure_layers(subject, batches));
  const compiler::TuningData times = runtime::read_kernel_times(options, subject.machine);
  FUSEC_ASSIGN(subject.stages,
               runtime::run_stages(*subject.loaded.model.graph, subject.machine.target, options, Stage::select,
                                   ir::Deadline(options.compile_seconds), times, runtime::Listing::all));
  FUSEC_ASSIGN(const Engine engine, compile_model(subject.loaded.model, options));
  tell_engine(engine, flags);
  std::vector<Advised> all;
  for (const int64_t batch : batches) {
    FUSEC_ASSIGN(Advised one, advise_shapes(subject, engine, batch));
    all.push_back(std::move(one));
  }
  print_all({{"device", to_string(engine.device())}, {"target", engine.target().name}, {"threads", engine.threads()}},
            runs_on(engine), all, flags);
  return true;
}

}  // namespace

Command advise_command() {
  auto flags = std::make_shared<AdviseFlags>();
  return {
      "advise", "what bounds a model, where its time goes, and what to change",
      "  fusec advise model.onnx --random-weights 1 --measure    measures the layers that are not known yet\n"
      "  fusec advise model.onnx --random-weights 1              again: only the run is measured\n"
      "  fusec advise model.onnx --allow f16,tf32 --json         what narrower types would give\n"
      "  fusec advise model.onnx --batch 1,8,32                  bound and run of each batch\n"
      "  fusec advise model.onnx --database h100.sqlite --target cuda:sm_90      of a machine that is not here\n"
      "\nThe library bound adds the fastest measured way of each layer, in place; the fusion-aware bound takes each "
      "step by\n"
      "its bytes and operations alone; the reachable bound is the library bound less what fusion and narrower types\n"
      "save. The gap between a run and the reachable bound is split: launch (gaps between steps, and the host), "
      "layout\n"
      "(steps that only move data), algorithm (a step against its fastest way), fusion (bytes between steps that\n"
      "could be one), precision (a narrower type), branches (steps that need not wait), and other, which is what\n"
      "the times of steps and gaps do not explain. Each microsecond of a step is counted once, in this order.\n"
      "docs/advise.md explains the figures.",
      [flags](Flags& f) {
        declare_model(f, *flags);
        f.option("--batch", flags->batch, "1,7,64: each of these");
        f.flag("--measure", flags->measure, "first measure the layers that the tuning database lacks, as tune does");
        f.flag("--quick", flags->quick, "with --measure: fewer runs of each way");
        f.option("--allow", flags->allow,
                 "types that you would accept in place of f32: f32, tf32, f16, or several of them (default auto: tf32 "
                 "and f16 on a GPU, f32 on a CPU)");
        f.option("--database", flags->database,
                 "FILE: a tuning database of another machine, as fusec tune --export writes it; nothing is run");
        f.option("--scope", flags->scope, "TEXT: with --database: the machine whose scope contains it");
        f.flag("--no-check", flags->no_check, "do not make the changes that a flag can make, to measure them");
        f.option("--duration", flags->duration,
                 "seconds to measure each run, in five rounds of at least 9 traced runs and as many that are not "
                 "(default 1)");
        f.option("--runs", flags->runs, "one round of exactly so many runs instead");
        f.option("--warmup", flags->warmup, "runs before (default 3)");
      },
      [flags] { return advise(*flags); }};
}

}  // namespace fusec::tool

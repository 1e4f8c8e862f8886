// SPDX-License-Identifier: Apache-2.0
// Implements `fusec bench --save` and `--against`: measures patterns and models in rounds, each of which covers all of
// them, and stores the record or compares it with a stored one.

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "codegen/emit.h"
#include "fusec/device.h"
#include "fusec/session.h"
#include "runtime/device/device.h"
#include "runtime/device/host/detect.h"
#include "runtime/plan/state.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/measure/bench_record.h"
#include "runtime/tool/measure/clocks.h"
#include "runtime/tool/measure/gpu_baseline.h"
#include "runtime/tool/model_file.h"

namespace fusec::tool {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 5;
// A model's baseline: a fixed copy, since its inputs and outputs say little of what it moves. On a GPU it is one that
// no cache holds: the speed of copies within L2 differs by 4 % from one process to the next.
constexpr int64_t kMib = int64_t{1} << 20;
constexpr int64_t kCpuCopyBytes = 64 * kMib, kGpuCopyBytes = 512 * kMib;

struct GateCase {
  BenchCase result;
  bool is_pattern = false;
  std::string path;
  Options options;
  std::optional<Model> model;
  std::optional<Engine> engine;
  std::vector<Tensor> made;  // inputs in the CPU's memory, kept where each round copies them to a GPU
  std::vector<double> us;
};

struct Yardstick {
  std::optional<CopySpeed> cpu;
  std::unique_ptr<GpuBaseline> gpu;
  CopyMethod model_way;  // of the CPU: found once, so that every round copies alike
};

struct Timed {
  double us = 0, copy_us = 0;
};

// What a round makes anew: the place of tensors in memory is part of the spread.
struct Bound {
  Session session;
  std::vector<Tensor> inputs, outputs;
  int64_t bytes = 0;

  static Result<std::vector<Tensor>> place_inputs(GateCase& c) {
    if (!c.made.empty()) return on_device(*c.engine, c.made);
    FUSEC_ASSIGN(const Symbols symbols, solve_symbols(*c.model, Request()));
    FUSEC_ASSIGN(std::vector<Tensor> made, make_inputs(*c.model, Request(), symbols));
    FUSEC_ASSIGN(std::vector<Tensor> inputs, on_device(*c.engine, made));
    if (c.engine->device().kind != TargetKind::cpu) c.made = std::move(made);
    return inputs;
  }

  static Result<Bound> make(GateCase& c) {
    FUSEC_ASSIGN(std::vector<Tensor> inputs, place_inputs(c));
    FUSEC_ASSIGN(Session session, Session::create(*c.engine));
    FUSEC_ASSIGN(std::vector<Tensor> outputs, session.run(inputs));
    FUSEC_TRY(session.bind_io(inputs, outputs));
    Bound bound{std::move(session), std::move(inputs), std::move(outputs)};
    for (const auto* tensors : {&bound.inputs, &bound.outputs}) {
      for (const Tensor& t : *tensors) bound.bytes += static_cast<int64_t>(t.bytes());
    }
    return bound;
  }
};

Result<Timed> time_pattern(Bound& bound, Yardstick& copy, const Call& call, const Budget& budget) {
  if (copy.gpu) {
    FUSEC_ASSIGN(const GpuPaired timed,
                 copy.gpu->time(bound.session, bound.inputs, bound.outputs, bound.bytes, budget));
    return Timed{median(timed.us), timed.fastest().us};
  }
  FUSEC_TRY(copy.cpu->reserve(bound.bytes));
  const Paired timed = time_paired(call, *copy.cpu, bound.bytes, budget);
  const double us = median(timed.us);
  return Timed{us, timed.score * us};  // the score is the median of each call's own quotient
}

Result<Timed> time_model(Yardstick& copy, const Call& call, const Budget& budget) {
  if (copy.gpu) {
    const double us = median(time_runs(call, budget));
    FUSEC_ASSIGN(const double copy_us, copy.gpu->wall_copy_us(kGpuCopyBytes));
    return Timed{us, copy_us};
  }
  const auto copy_us = [&] { return copy.cpu->best_us(copy.model_way, kCpuCopyBytes, 5); };
  const double before = copy_us(), us = median(time_runs(call, budget));
  return Timed{us, (before + copy_us()) / 2};
}

Status measure(GateCase& c, Yardstick& copy, const Budget& budget) {
  FUSEC_ASSIGN(Bound bound, Bound::make(c));
  Status failed;
  const Call call = [&] {
    if (Status status = bound.session.run_bound(); !status.ok()) failed = std::move(status);
  };
  FUSEC_ASSIGN(const Timed timed,
               c.is_pattern ? time_pattern(bound, copy, call, budget) : time_model(copy, call, budget));
  FUSEC_TRY(failed);
  c.us.push_back(timed.us);
  c.result.ratios.push_back(timed.us / timed.copy_us);
  return {};
}

void fail(GateCase& c, const Status& status) {
  fmt::print(stderr, "fusec: {}: {}\n", c.result.name, status.str());
  c.result.error = status.str();
}

// `read`: the file that was read last. Cases of one file follow each other.
Status prepare(GateCase& c, ModelFlags flags, std::pair<std::string, Model>& read) {
  if (!flags.random_weights) flags.random_weights = 0;
  if (read.first != c.path) {
    read = {};
    FUSEC_ASSIGN(Loaded loaded, load_model(c.path, flags));
    read = {c.path, std::move(loaded.model)};
  }
  FUSEC_ASSIGN(c.engine, compile_model(read.second, c.options));
  c.model = read.second;
  c.model->graph = nullptr;  // with the weights of all models there could be too little memory
  return {};
}

struct PrecisionOptions {
  std::string name;
  Options options;
};

// `--precision f32,f16`: one for each.
Result<std::vector<PrecisionOptions>> parse_precisions(const BenchFlags& flags) {
  std::vector<PrecisionOptions> list;
  std::istringstream text(flags.precision);
  BenchFlags one = flags;
  while (std::getline(text, one.precision, ',')) {
    FUSEC_ASSIGN(Options options, parse_options(one));
    list.push_back({one.precision, std::move(options)});
  }
  if (list.empty()) return Status(StatusCode::invalid_argument, "--precision names none; give f32, f16, bf16");
  return list;
}

// Patterns run in the first precision, each model in every one.
Result<std::vector<GateCase>> collect_cases(const BenchFlags& flags, const std::vector<PrecisionOptions>& precisions) {
  std::vector<GateCase> cases;
  const auto add = [&](const std::string& file, const PrecisionOptions& precision, std::string name) {
    GateCase& c = cases.emplace_back();
    c.path = file;
    c.options = precision.options;
    c.result.name = std::move(name);
    return &c;
  };
  if (!flags.patterns.empty()) {
    FUSEC_ASSIGN(const std::vector<std::string> files, model_files(flags.patterns, "--patterns"));
    for (const std::string& file : files) {
      GateCase* const c = add(file, precisions.front(), "pattern " + fs::path(file).stem().string());
      c->is_pattern = true;
      c->options.cuda_graph = false;  // a GPU's patterns are timed between events on a plain stream
    }
  }
  for (const std::string& where : flags.models) {
    FUSEC_ASSIGN(const std::vector<std::string> files, model_files(where, "--models"));
    for (const std::string& file : files)
      for (const PrecisionOptions& precision : precisions)
        add(file, precision,
            "model " + fs::path(file).stem().string() + (precisions.size() > 1 ? " " + precision.name : ""));
  }
  return cases;
}

// The version of the kernel's module, where /proc tells: "580.65.06, ".
std::string module_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word) {
    const bool numbers = word.find_first_not_of("0123456789.") == std::string::npos;
    if (numbers && word.find('.') != std::string::npos) return word + ", ";
  }
  return {};
}

void describe_device(const runtime::Machine& machine, BenchOrigin& origin) {
  std::string name = runtime::cpu_name();
  for (const DeviceInfo& info : devices()) {
    if (machine.device.kind != TargetKind::cuda || info.device != machine.device) continue;
    name = info.name;
    origin.driver = module_version() + "CUDA " + info.driver;
  }
  origin.machine = name + ", " + machine.target.name;
}

std::string today() {
  return fmt::format("{:%Y-%m-%d}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

Result<BenchOrigin> make_origin(const Options& options, const BenchFlags& flags) {
  FUSEC_ASSIGN(const runtime::Machine machine, runtime::open_machine(options));
  BenchOrigin origin;
  const bool on_gpu = machine.device.kind == TargetKind::cuda;
  origin.device = on_gpu ? "cuda" : "cpu";
  describe_device(machine, origin);
  origin.threads = on_gpu ? 0 : machine.target.threads;
  origin.numerics = flags.numerics;
  origin.precision = flags.precision;
  origin.tf32 = flags.tf32;
  origin.batch_invariant = flags.batch_invariant;
  if (!flags.models.empty()) origin.model_copy_mib = (on_gpu ? kGpuCopyBytes : kCpuCopyBytes) / kMib;
  origin.date = today();
  origin.commit = flags.commit.empty() ? "unknown" : flags.commit;
  return origin;
}

// The libraries of an engine, and what made its code: a line of the key of every kernel.
std::string list_versions(const Engine& engine) {
  std::string text = codegen::artifact_key(ir::Kernel(), engine.target());
  text = text.substr(0, text.find('\n'));
  for (const auto& library : engine.state()->loaded->libraries)
    text += fmt::format("; {} {}", library->name(), library->version());
  return text;
}

Result<Yardstick> make_yardstick(const Options& options, int threads) {
  Yardstick copy;
  if (options.device == "cpu") {
    FUSEC_ASSIGN(copy.cpu, CopySpeed::make(kCpuCopyBytes, threads));
    copy.model_way = copy.cpu->fastest(kCpuCopyBytes);
    return copy;
  }
  FUSEC_ASSIGN(copy.gpu, GpuBaseline::make(options, compile_model));
  FUSEC_TRY(copy.gpu->prepare());
  for (const std::string& note : copy.gpu->notes()) warn(note);
  return copy;
}

void prepare_all(std::vector<GateCase>& cases, const BenchFlags& flags, BenchOrigin& origin) {
  std::pair<std::string, Model> read;
  for (GateCase& c : cases) {
    if (const Status status = prepare(c, flags, read); !status.ok()) fail(c, status);
    if (c.engine && origin.versions.empty()) origin.versions = list_versions(*c.engine);
  }
}

Result<double> copy_gb_per_s(Yardstick& copy) {
  if (copy.gpu) {
    FUSEC_ASSIGN(const double us, copy.gpu->copy_us(kGpuCopyBytes));
    return static_cast<double>(kGpuCopyBytes) / 1e3 / us;
  }
  return static_cast<double>(kCpuCopyBytes) / 1e3 / copy.cpu->best_us(copy.model_way, kCpuCopyBytes, 5);
}

Result<BenchRecord> run_rounds(std::vector<GateCase> cases, BenchOrigin origin, const Options& options,
                               const BenchFlags& flags) {
  const Clock::time_point start = Clock::now();
  const auto say = [&](const std::string& what) {
    warn(fmt::format("{:4.0f} s: {}", std::chrono::duration<double>(Clock::now() - start).count(), what));
  };
  FUSEC_ASSIGN(Yardstick copy, make_yardstick(options, origin.threads));
  FUSEC_ASSIGN(const Device device, parse_device(options.device));
  prepare_all(cases, flags, origin);
  say(fmt::format("{} cases are compiled", cases.size()));
  Budget budget = flags.budget();
  budget.seconds /= kRounds;
  std::vector<double> speeds;
  const MachineState before = read_machine_state(device);
  if (const std::string why = doubts(device, before, before, 0); !why.empty()) warn("times may vary: " + why);
  for (int round = 1; round <= kRounds; ++round) {
    if (const Result<double> speed = copy_gb_per_s(copy); speed.ok()) speeds.push_back(*speed);
    Progress progress{Progress::Steps()};
    for (GateCase& c : cases) {
      if (!c.result.error.empty()) continue;
      const auto done = static_cast<std::size_t>(&c - cases.data());
      progress.step(done, cases.size(), fmt::format("round {} of {}: {}", round, kRounds, c.result.name));
      if (const Status status = measure(c, copy, budget); !status.ok()) fail(c, status);
    }
    say(fmt::format("round {} of {} is over", round, kRounds));
  }
  origin.copy_gb_per_s = median(speeds);
  origin.clocks = make_json(before, read_machine_state(device));
  BenchRecord record{std::move(origin), {}};
  for (GateCase& c : cases) {
    c.result.median_ms = median(c.us) / 1e3;
    record.cases.push_back(std::move(c.result));
  }
  return record;
}

Result<BenchRecord> read_record(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return Status(StatusCode::invalid_argument, fmt::format("--against '{}': the file cannot be read", path));
  return parse_record(Json::parse(text.str(), nullptr, false), path);
}

Status unwritable(const std::string& path) {
  return Status(StatusCode::invalid_argument, fmt::format("--save '{}': the file cannot be written", path));
}

// Asked before anything is measured.
Status check_writable(const std::string& path) {
  const fs::path folder = fs::absolute(path).parent_path();
  std::error_code error;
  return fs::is_directory(folder, error) && !fs::is_directory(path, error) ? Status() : unwritable(path);
}

Status save(const BenchRecord& record, const std::string& path) {
  std::ofstream out(path);
  out << make_json(record).dump(1) << '\n';
  out.close();
  return out ? Status() : unwritable(path);
}

Json make_json(const BenchComparison& result) {
  Json json = {{"slower", Json::array()}, {"ok", result.ok()}, {"faster", Json::array()}, {"same", Json::array()}};
  for (const BenchChange& c : result.changes) {
    json[c.slower   ? "slower"
         : c.faster ? "faster"
                    : "same"]
        .push_back({{"name", c.name},
                    {"before", c.before},
                    {"now", c.now},
                    {"ratio", c.ratio},
                    {"before_spread", c.before_spread},
                    {"now_spread", c.now_spread}});
  }
  json["failed"] = Json::array();
  for (const BenchCase& c : result.failed) json["failed"].push_back({{"name", c.name}, {"error", c.error}});
  json["missing"] = result.missing;
  json["added"] = result.added;
  return json;
}

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

void print_record(const BenchRecord& record) {
  Table table({"case", "median ms", "times a copy", "spread"});
  for (const BenchCase& c : record.cases) {
    if (!c.error.empty()) {
      table.row({c.name, "-", "failed", "-"});
      continue;
    }
    const double low = percentile(c.ratios, 0), high = percentile(c.ratios, 1);
    table.row(
        {c.name, fmt::format("{:.4f}", c.median_ms), fmt::format("{:.3f}", median(c.ratios)), percent(high / low - 1)});
  }
  print_text(table.str());
}

std::string told(const BenchOrigin& o) {
  return fmt::format("{}, commit {}, copies at {:.0f} GB/s{}{}", o.date, o.commit, o.copy_gb_per_s,
                     o.driver.empty() ? "" : ", driver ", o.driver);
}

void print_comparison(const BenchComparison& result, const BenchOrigin& before, const BenchOrigin& now) {
  Table table({"case", "times a copy before", "spread", "now", "spread", "now / before", ""});
  int64_t slower = 0;
  for (const BenchChange& c : result.changes) {
    slower += c.slower;
    table.row({c.name, fmt::format("{:.3f}", c.before), percent(c.before_spread), fmt::format("{:.3f}", c.now),
               percent(c.now_spread), fmt::format("{:.3f}", c.ratio),
               c.slower   ? "SLOWER"
               : c.faster ? "faster"
                          : ""});
  }
  for (const BenchCase& c : result.failed) table.row({c.name, "", "", "", "", "", "FAILED"});
  print_text(table.str());
  if (!result.missing.empty()) print_text(fmt::format("only in the file: {}", fmt::join(result.missing, ", ")));
  if (!result.added.empty()) print_text(fmt::format("not in the file: {}", fmt::join(result.added, ", ")));
  print_text(fmt::format("{} of {} slower by over 3% and beyond both spreads, {} failed; before: {}; now: {}", slower,
                         result.changes.size(), result.failed.size(), told(before), told(now)));
}

}  // namespace

Result<bool> bench_gate(const BenchFlags& flags) {
  FUSEC_ASSIGN(const std::vector<PrecisionOptions> precisions, parse_precisions(flags));
  const Options& options = precisions.front().options;
  FUSEC_ASSIGN(std::vector<GateCase> cases, collect_cases(flags, precisions));
  if (!flags.save.empty()) FUSEC_TRY(check_writable(flags.save));
  FUSEC_ASSIGN(BenchOrigin origin, make_origin(options, flags));
  std::optional<BenchRecord> before;
  if (!flags.against.empty()) {
    FUSEC_ASSIGN(before, read_record(flags.against));
    FUSEC_TRY(comparable(before->origin, origin, flags.against));
  }
  FUSEC_ASSIGN(const BenchRecord now, run_rounds(std::move(cases), std::move(origin), options, flags));
  const bool all_ran =
      std::all_of(now.cases.begin(), now.cases.end(), [](const BenchCase& c) { return c.error.empty(); });
  if (!flags.save.empty() && all_ran) FUSEC_TRY(save(now, flags.save));
  if (!flags.save.empty() && !all_ran)
    fmt::print(stderr, "fusec: '{}' is not written, since not every case ran\n", flags.save);
  if (!before) {
    flags.json ? print(make_json(now)) : print_record(now);
    return all_ran;
  }
  FUSEC_ASSIGN(const BenchComparison result, compare(*before, now, flags.against));
  flags.json ? print(make_json(result)) : print_comparison(result, before->origin, now.origin);
  return result.ok();
}

}  // namespace fusec::tool

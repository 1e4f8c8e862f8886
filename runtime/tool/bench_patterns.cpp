// SPDX-License-Identifier: Apache-2.0
// Implements `fusec bench --patterns`: compiles each memory-bound model of a folder and times it alternately with a
// copy of as many bytes. The score is the copy's time divided by the model's time.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "fusec/device.h"
#include "fusec/session.h"
#include "ir/cost/cost.h"
#include "runtime/device/device.h"
#include "runtime/plan/state.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/measure/clocks.h"
#include "runtime/tool/measure/gpu_baseline.h"
#include "runtime/tool/measure/timing.h"
#include "runtime/tool/model_file.h"
#include "runtime/tool/steps.h"

namespace fusec::tool {
namespace {

namespace fs = std::filesystem;

// Copies of one size whose rounds spread more than this ran at several memory speeds.
constexpr double kMixed = 1.25;

struct PatternRow {
  std::string name;
  Status status;  // why there are no figures
  int64_t bytes = 0, launches = 0, library = 0;
  double compile_ms = 0;
  int64_t compiled_kernels = 0, cached_kernels = 0;
  double predicted_us = 0, bound_us = 0;  // by the machine model; predicted: of the generated kernels
  Paired paired;
  std::string copy_kind;
  PlanStats profile;
  std::optional<TaskCycles> cycles;
  double copy_gb_per_s() const { return static_cast<double>(bytes) / (1e3 * paired.copy_us); }
};

int64_t count_bytes(const std::vector<Tensor>& tensors) {
  int64_t sum = 0;
  for (const Tensor& t : tensors) sum += static_cast<int64_t>(t.bytes());
  return sum;
}

// Rounds on a GPU are all alike: each begins with a flushed cache.
Status time_on_gpu(Session& session, std::span<const Tensor> inputs, std::span<Tensor> outputs, GpuBaseline& copy,
                   const BenchFlags& flags, PatternRow& row) {
  FUSEC_ASSIGN(const GpuPaired timed, copy.time(session, inputs, outputs, row.bytes, flags.budget()));
  row.paired.us = timed.us;
  row.paired.copy_us = timed.fastest().us;
  row.paired.score = timed.score();
  row.paired.copy_spread = 1;
  row.paired.rounds = row.paired.kept = static_cast<int64_t>(timed.us.size());
  row.copy_kind = timed.fastest().kind;
  return {};
}

// The baseline of a pattern: exactly one of the two is set.
struct PatternYardstick {
  std::optional<CopySpeed> cpu;
  std::unique_ptr<GpuBaseline> gpu;
};

Status time_pattern(Session& session, std::span<const Tensor> inputs, std::span<Tensor> outputs, PatternYardstick& copy,
                    const BenchFlags& flags, PatternRow& row) {
  if (copy.gpu) return time_on_gpu(session, inputs, outputs, *copy.gpu, flags, row);
  FUSEC_TRY(copy.cpu->reserve(row.bytes));
  Status failed;
  const Call call = [&] {
    if (Status status = session.run_bound(); !status.ok()) failed = std::move(status);
  };
  row.paired = time_paired(call, *copy.cpu, row.bytes, flags.budget());
  row.copy_kind = to_string(row.paired.method);
  return failed;
}

// A GPU's caches are flushed before each round; on a CPU the call finds what the copy before it has left.
Status predict(const Engine& engine, const std::vector<Tensor>& inputs, PatternRow& row) {
  std::vector<TensorShape> shapes;
  for (const Tensor& t : inputs) shapes.push_back(t.shape());
  FUSEC_ASSIGN(const runtime::PlanPtr plan, engine.state()->plan(shapes));
  const bool flushed = engine.target().kind == TargetKind::cuda;
  const auto residence = flushed ? ir::Residence::memory : ir::Residence::near;
  const PlanStats stats = runtime::describe(*plan, engine.target(), residence);
  // Launches of one stream follow each other without events between them.
  const MachineModel& model = engine.target().model;
  const double between = flushed ? model.launch - model.dependent_launch : 0;
  const auto once = static_cast<std::size_t>(stats.once);
  for (std::size_t i = once; i < stats.steps.size(); ++i) {
    row.predicted_us += stats.steps[i].predicted_us - (i > once ? between : 0);
    row.profile.steps[i].predicted_us = stats.steps[i].predicted_us;
    row.profile.steps[i].bound_us = stats.steps[i].bound_us;
  }
  const auto in = static_cast<double>(count_bytes(inputs)), all = static_cast<double>(row.bytes);
  row.bound_us = ir::rounded(ir::copy_us(engine.target(), in, all - in, residence, ir::Launching::alone));
  return {};
}

Status measure(const std::string& path, const Options& options, const Target& target, PatternYardstick& copy,
               const BenchFlags& flags, std::set<std::string>& unused, PatternRow& row) {
  FUSEC_ASSIGN(const Loaded loaded, load_model(path, flags));
  ModelFlags own = flags;
  own.shapes = shapes_of(loaded.model, flags.shapes);
  for (const std::string& shape : own.shapes) unused.erase(shape);
  FUSEC_ASSIGN(const Request request, parse_request(loaded.model, own));
  FUSEC_ASSIGN(const Symbols symbols, solve_symbols(loaded.model, request));
  FUSEC_ASSIGN(const Engine engine, compile_model(loaded.model, options));
  row.compile_ms = loaded.load_ms + engine.stats().compile_ms;
  row.compiled_kernels = engine.stats().compiled_kernels;
  row.cached_kernels = engine.stats().cached_kernels;
  FUSEC_ASSIGN(const std::vector<Tensor> made, make_inputs(loaded.model, request, symbols));
  FUSEC_ASSIGN(const std::vector<Tensor> inputs, on_device(engine, made));
  FUSEC_ASSIGN(Session session, Session::create(engine));
  FUSEC_ASSIGN(std::vector<Tensor> outputs, session.run(inputs));
  FUSEC_TRY(session.bind_io(inputs, outputs));
  FUSEC_ASSIGN(row.profile, session.profile(inputs));
  row.launches = row.profile.launches;
  row.library = row.profile.library;
  row.bytes = count_bytes(inputs) + count_bytes(outputs);
  FUSEC_TRY(predict(engine, inputs, row));
  FUSEC_TRY(time_pattern(session, inputs, outputs, copy, flags, row));
  if (flags.cycles) {
    FUSEC_ASSIGN(row.cycles, task_cycles(loaded.model, options, target, inputs, outputs));
  }
  return {};
}

// Says whether the pattern ran in the cache or in memory, and how steady its times were.
std::string regime(const PatternRow& row, const Target& target) {
  if (target.kind == TargetKind::cuda) return "memory";
  std::string out = row.bytes <= target.last_level_cache ? "cache" : "memory";
  if (row.paired.kept == 0) return out + ", unsteady";
  return row.paired.copy_spread > kMixed ? out + ", mixed speeds" : out;
}

Json make_json(const PatternRow& row, const std::string& device, const Target& target, bool steps) {
  Json json = {{"pattern", row.name}};
  if (!row.status.ok()) {
    json["error"] = row.status.str();
    return json;
  }
  const std::vector<double>& us = row.paired.us;
  json.update(Json{{"device", device},
                   {"median_ms", median(us) / 1e3},
                   {"p95_ms", percentile(us, 0.95) / 1e3},
                   {"min_ms", percentile(us, 0) / 1e3},
                   {"runs", row.paired.rounds},
                   {"kept", row.paired.kept},
                   {"compile_ms", row.compile_ms},
                   {"compiled_kernels", row.compiled_kernels},
                   {"cached_kernels", row.cached_kernels},
                   {"launches", row.launches},
                   {"library", row.library},
                   {"bytes", row.bytes},
                   {"moved_bytes", row.profile.moved_bytes},
                   {"copy_ms", row.paired.copy_us / 1e3},
                   {"copy_gb_per_s", row.copy_gb_per_s()},
                   {"copy_kind", row.copy_kind},
                   {"score", row.paired.score},
                   {"predicted_us", row.library == 0 ? Json(ir::rounded(row.predicted_us)) : Json()},
                   {"bound_us", row.bound_us},
                   {"regime", regime(row, target)}});
  if (row.cycles) json.update(Json{{"cycles_per_16", row.cycles->per_16}, {"task_bytes", row.cycles->task_bytes}});
  if (steps) json["steps"] = steps_json(row.profile);
  return json;
}

Json make_json(const std::vector<CopyRow>& rows) {
  Json list = Json::array();
  for (const CopyRow& row : rows) {
    list.push_back({{"bytes", row.bytes}, {"kind", to_string(row.kind)}, {"gb_per_s", row.gb_per_s}});
  }
  return list;
}

void print_copy_table(const std::vector<CopyRow>& rows) {
  std::map<int64_t, std::map<CopyKind, double>> by_size;
  for (const CopyRow& row : rows) by_size[row.bytes][row.kind] = row.gb_per_s;
  Table table({"copy", "memcpy", "avx2 streaming", "avx512 streaming"});
  for (const auto& [bytes, speeds] : by_size) {
    std::vector<std::string> cells = {bytes_text(bytes)};
    for (const auto& [kind, speed] : speeds) cells.push_back(fmt::format("{:.1f} GB/s", speed));
    table.row(std::move(cells));
  }
  print_text(table.str());
}

void print_rows(const std::vector<PatternRow>& rows, const Target& target, const BenchFlags& flags) {
  std::vector<std::string> header = {"pattern", "in + out",     "launches", "copy GB/s", "copy us", "pattern us",
                                     "score",   "predicted us", "bound us", "rounds",    "regime"};
  if (flags.cycles) header.insert(header.end(), {"cycles / 16", "a task's"});
  Table table(header);
  for (const PatternRow& row : rows) {
    if (!row.status.ok()) {
      table.row({row.name, "-", "-", "-", "-", "-", "failed", "-", "-", "-", shortened(row.status.str(), 100)});
      continue;
    }
    std::vector<std::string> cells = {row.name,
                                      bytes_text(row.bytes),
                                      std::to_string(row.launches),
                                      fmt::format("{:.1f}", row.copy_gb_per_s()),
                                      fmt::format("{:.1f}", row.paired.copy_us),
                                      fmt::format("{:.1f}", median(row.paired.us)),
                                      fmt::format("{:.1f}%", 100 * row.paired.score),
                                      row.library == 0 ? fmt::format("{:.1f}", row.predicted_us) : "-",
                                      fmt::format("{:.1f}", row.bound_us),
                                      fmt::format("{} of {}", row.paired.kept, row.paired.rounds),
                                      regime(row, target)};
    if (row.cycles)
      cells.insert(cells.end(), {fmt::format("{:.1f}", row.cycles->per_16), bytes_text(row.cycles->task_bytes)});
    table.row(std::move(cells));
  }
  print_text(table.str());
  if (!flags.steps) return;
  for (const PatternRow& row : rows) {
    if (row.status.ok()) print_text("\n" + row.name + "\n" + steps_table(row.profile, true));
  }
}

}  // namespace

Result<std::vector<std::string>> model_files(const std::string& where, const std::string& flag) {
  std::error_code error;
  if (fs::is_regular_file(where, error)) return std::vector<std::string>{where};
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(where, error)) {
    const std::string path = entry.path().string();
    if (path.ends_with(".onnx") || path.ends_with(".fir")) files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) {
    return Status(StatusCode::invalid_argument, fmt::format("{} {}: there is no .onnx file in it", flag, where));
  }
  return files;
}

Result<bool> bench_patterns(const BenchFlags& flags) {
  FUSEC_ASSIGN(Options options, parse_options(flags));
  options.cuda_graph = false;  // a GPU's patterns are timed between events on a plain stream
  FUSEC_ASSIGN(const runtime::Machine machine, runtime::open_machine(options));
  const Target& target = machine.target;
  const bool on_gpu = target.kind == TargetKind::cuda;
  if (on_gpu && flags.cycles) return Status(StatusCode::unsupported, "--cycles measures the CPU; add --device cpu");
  FUSEC_ASSIGN(const std::vector<std::string> files, model_files(flags.patterns, "--patterns"));
  const MachineState before = read_machine_state(machine.device);
  if (const std::string why = doubts(machine.device, before, before, 0); !why.empty()) warn("times may vary: " + why);
  PatternYardstick copy;
  std::vector<CopyRow> copies;
  if (on_gpu) {
    FUSEC_ASSIGN(copy.gpu, GpuBaseline::make(options, compile_model));
    FUSEC_TRY(copy.gpu->prepare());
    for (const std::string& note : copy.gpu->notes()) warn(note);
  } else {
    FUSEC_ASSIGN(copy.cpu, CopySpeed::make(int64_t{256} << 20, target.threads));
    copies = copy_table(*copy.cpu, int64_t{256} << 20);
  }
  std::vector<PatternRow> rows;
  std::set<std::string> unused(flags.shapes.begin(), flags.shapes.end());  // of --shape
  bool ok = true;
  const auto start = std::chrono::steady_clock::now();
  const auto left = [&] {  // seconds of --time-limit
    if (flags.time_limit <= 0) return std::numeric_limits<double>::infinity();
    return flags.time_limit - std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Progress progress{Progress::Steps()};
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string& file = files[i];
    PatternRow row;
    row.name = fs::path(file).stem().string();
    progress.step(i, files.size(), "measuring " + row.name);
    BenchFlags share = flags;
    share.duration = std::min(flags.duration, left() / static_cast<double>(files.size() - i) / 2);
    row.status = left() <= 0 ? Status(StatusCode::invalid_argument, "not measured: --time-limit has passed")
                             : measure(file, options, target, copy, share, unused, row);
    ok = ok && row.status.ok();
    if (!row.status.ok()) fmt::print(stderr, "fusec: {}: {}\n", row.name, row.status.str());
    rows.push_back(std::move(row));
  }
  for (const std::string& shape : unused) {
    ok = false;
    fmt::print(stderr, "fusec: --shape {}: no pattern has such an input or symbol\n", shape);
  }
  if (flags.json) {
    Json patterns = Json::array();
    for (const PatternRow& row : rows) patterns.push_back(make_json(row, options.device, target, flags.steps));
    Json json = {{"device", options.device},  {"target", target.name},
                 {"threads", target.threads}, {"clocks", make_json(before, read_machine_state(machine.device))},
                 {"copy", make_json(copies)}, {"patterns", patterns}};
    if (on_gpu) json["read_gb_per_s"] = copy.gpu->read_gb_per_s();
    print(json);
  } else {
    if (on_gpu) {
      print_text(fmt::format("{}, {}, {}; reading alone {:.0f} GB/s", options.device, target.name, flags.numerics,
                             copy.gpu->read_gb_per_s()));
    } else {
      print_text(fmt::format("cpu, {}, {} threads, {}", target.name, target.threads, flags.numerics));
      print_copy_table(copies);
    }
    print_text("");
    print_rows(rows, target, flags);
  }
  return ok;
}

}  // namespace fusec::tool

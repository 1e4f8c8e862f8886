// SPDX-License-Identifier: Apache-2.0
// Declares the command-line flags that several commands share and converts them to Options. Unknown values are refused
// here, so commands may rely on the Options.

#include "runtime/tool/common.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <sstream>

#include "fusec/device.h"
#include "ir/graph/limits.h"
#include "runtime/plan/state.h"

namespace fusec::tool {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

constexpr double kQuickTuningSeconds = 15;

// CPU time at start-up stands for what the loader took before main.
const double kBeforeMain = 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
const Clock::time_point kStart = Clock::now();

Status reject_value(const std::string& flag, const std::string& given, const std::string& list) {
  return Status(StatusCode::invalid_argument, fmt::format("{} {} is not one of {}", flag, given, list));
}

Result<std::string> choose_device(const ModelFlags& flags) {
  if (!flags.device.empty()) {
    if (!parse_device(flags.device).ok())
      return reject_value("--device", flags.device, "cpu, cuda, cuda:0, cuda:1, ...");
    return flags.device;
  }
  FUSEC_ASSIGN(const std::string name, single_target(flags));
  const Result<Target> target = named_target(name);
  if (target.ok() && target->kind == TargetKind::cpu) return std::string("cpu");
  return std::string(gpu_status().ok() ? "cuda:0" : "cpu");
}

Result<Specialize> parse_specialize(const ModelFlags& flags) {
  if (flags.specialize == "off") return Specialize::off;
  if (flags.specialize == "now") return Specialize::now;
  if (flags.specialize == "background") return Specialize::background;
  return reject_value("--specialize", flags.specialize, "off, now, background");
}

Result<Codegen> parse_codegen(const ModelFlags& flags) {
  if (flags.codegen == "auto") return Codegen::automatic;
  if (flags.codegen == "nvrtc") return Codegen::nvrtc;
  if (flags.codegen == "llvm") return Codegen::llvm;
  return reject_value("--codegen", flags.codegen, "auto, nvrtc, llvm");
}

Status add_tuning(const ModelFlags& flags, Options& options) {
  if (flags.strategy == "heuristic") {
    options.strategy = Strategy::heuristic;
  } else if (flags.strategy == "profile") {
    options.strategy = Strategy::profile;
  } else if (flags.strategy == "reproducible") {
    options.strategy = Strategy::reproducible;
  } else if (flags.strategy != "cached") {
    return reject_value("--strategy", flags.strategy, "heuristic, profile, cached, reproducible");
  }
  if (flags.batch_invariant && (flags.strategy == "profile" || !flags.tune.empty())) {
    return Status(StatusCode::invalid_argument,
                  "--batch-invariant looks at no measured times, so there is nothing to measure for it");
  }
  if (!flags.tuning_db.empty()) options.tuning_db = flags.tuning_db;
  if (flags.tune.empty()) return {};
  if (flags.tune != "quick" && flags.tune != "full") return reject_value("--tune", flags.tune, "quick, full");
  if (flags.strategy != "cached" && flags.strategy != "profile") {
    return Status(StatusCode::invalid_argument, "--tune is a --strategy profile, not " + flags.strategy);
  }
  options.strategy = Strategy::profile;
  options.quick_tuning = flags.tune == "quick";
  options.tuning_seconds = options.quick_tuning ? kQuickTuningSeconds : 0;
  return {};
}

}  // namespace

double process_ms() { return kBeforeMain + milliseconds_since(kStart); }

namespace {

void declare_compiling(Flags& flags, ModelFlags& to) {
  flags.option("--device", to.device, "cpu, cuda or cuda:1; default: cuda:0 where one is usable, else cpu");
  flags.option(
      "--target", to.targets,
      "compile for x86-64-v2, v3, v4 or sm_75 ... sm_121, which the device must have; stages up to emit need none");
  flags.option("--threads", to.threads, "of a run; default: what the machine and OMP_NUM_THREADS give");
  flags.option("--numerics", to.numerics,
               "precise (default); exact: rounds after every op, and no library call loses NaN or infinities; fast: as "
               "precise today");
  flags.option("--precision", to.precision,
               "f16 or bf16: run an f32 model in it, inputs and outputs stay; f32: as the model says (default)");
  flags.flag("--no-library", to.no_library,
             "plain loops in place of oneDNN; on a GPU, generated code in place of cuBLASLt and cuDNN, which is slow");
  flags.flag(
      "--batch-invariant", to.batch_invariant,
      "library calls use one algorithm for all batches and no measured times, so that a sample's results have the "
      "same bits in every batch; verify checks it");
  flags.flag("--no-fusion", to.no_fusion, "one kernel per op");
  flags.option("--codegen", to.codegen, "auto (default), nvrtc or llvm: who makes a GPU's machine code");
  flags.option("--compile-limit", to.compile_limit,
               "SECONDS that the compile may take; asked for between passes and kernels (default: no limit)");
  flags.option("--disable-pass", to.disabled_passes, "NAME: leave a pass of the optimizer out");
  flags.option("--dump", to.dump, "DIR: every stage writes its text there");
}

void declare_symbols(Flags& flags, ModelFlags& to) {
  flags.option(
      "--fix", to.fixes,
      "N=8: the model is compiled for this value of its symbol N alone (inspect lists the symbols, --shape sets "
      "one for a run); may be given several times");
  flags.option("--range", to.ranges,
               "N=1:64, N=:64 or N=2: - the values that the symbol N may have: the compiler relies on them, and a run "
               "with another is refused; may be given several times");
  flags.option(
      "--constant", to.constants,
      "NAME=@file.npy, NAME=5 or NAME=1,2,3: what the input NAME holds in every run; it is no input of what is "
      "compiled. For shapes, axes and counts; may be given several times");
}

void declare_libraries(Flags& flags, ModelFlags& to) {
  flags.flag("--tf32", to.tf32, "f32 convolutions and products of a GPU may round to TF32");
  flags.option("--workspace-limit", to.workspace_limit,
               "MiB that one library call of a GPU may ask for (default 1024)");
  flags.option("--tuning-db", to.tuning_db, "FILE of measured times; default: tuning.v1.sqlite in the cache folder");
}

void declare_runs(Flags& flags, ModelFlags& to) {
  flags.flag("--no-cuda-graph", to.no_cuda_graph, "launch a GPU's steps one by one");
  flags.option(
      "--strategy", to.strategy,
      "cached (default), heuristic, profile or reproducible: who chooses how libraries do convolutions and products");
  flags.option(
      "--specialize", to.specialize,
      "off (default), now or background: kernels of a model with symbols are made for the shapes at hand, too, "
      "before the first run or by a thread beside the runs");
  flags.option("--tune", to.tune,
               "quick or full: as --strategy profile; measures what is missing first (quick: 15 s at most)");
}

}  // namespace

void declare_common(Flags& flags, ModelFlags& to, unsigned groups) {
  if (groups & kShapes) {
    flags.option("--shape", to.shapes, "NAME=1x3x224x224 for an input, N=8 for a symbol; an unset symbol is 1");
    flags.option("--input", to.inputs, "NAME=@file.npy | random:SEED | zeros | ones; without: random:0");
  }
  if (groups & kWeights) {
    flags.option("--random-weights", to.random_weights, "SEED: fills weights whose data file is absent");
    flags.option(
        "--external-root", to.external_roots,
        "DIR: data files of weights are looked for here too, after the model's folder; may be given several times");
  }
  if (groups & kWeights) declare_symbols(flags, to);
  if (groups & kCompiles) declare_compiling(flags, to);
  if (groups & kCaches) {
    flags.option("--cache-dir", to.cache_dir,
                 "of compiled kernels; default: $FUSEC_CACHE_DIR, $XDG_CACHE_HOME/fusec, ~/.cache/fusec");
    flags.option(
        "--cache-limit", to.cache_limit,
        "bytes that the kernel cache keeps, such as 500M; those used longest ago go first (default 2G; 0: no bound)");
    flags.flag("--no-cache", to.no_cache, "compile everything, store nothing");
  }
  if (groups & kLibraries) declare_libraries(flags, to);
  if (groups & kRuns) declare_runs(flags, to);
  flags.flag("--json", to.json, "machine-readable result");
  if (groups & kVerbose) flags.flag("-v,--verbose", to.verbose, "more detail");
}

void declare_model(Flags& flags, ModelFlags& to, unsigned groups) {
  flags.argument("model", to.model,
                 "an .onnx model, or the text of a graph (.fir); run, bench and inspect take packages (.fsc) too");
  declare_common(flags, to, groups);
}

void tell_engine(const Engine& engine, const ModelFlags& flags) {
  if (!flags.verbose) return;
  const EngineStats& stats = engine.stats();
  std::string stages;
  for (const StageTime& stage : stats.stages) stages += fmt::format(", {} {:.1f} ms", stage.stage, stage.ms);
  std::fprintf(stderr, "%s; kernels: %lld compiled, %lld from the cache%s\n", runs_on(engine).c_str(),
               static_cast<long long>(stats.compiled_kernels), static_cast<long long>(stats.cached_kernels),
               stages.c_str());
}

void declare_package(Flags& flags, ModelFlags& to) {
  flags.flag("--trust", to.trust, "run a package (.fsc) whoever owns it or may write it: a package is a program");
  flags.option("--verify-key", to.verify_key,
               "FILE.pem, an Ed25519 public key: the package must be signed by it, and may then belong to anyone");
}

std::vector<std::string> listed_targets(const ModelFlags& flags) {
  std::vector<std::string> names;
  for (const std::string& list : flags.targets) {
    for (std::string& name : split(list, ',')) names.push_back(std::move(name));
  }
  return names;
}

Result<std::string> single_target(const ModelFlags& flags) {
  std::vector<std::string> names = listed_targets(flags);
  if (names.size() > 1)
    return Status(StatusCode::invalid_argument, "several --target: only compile -o takes more than one");
  return names.empty() ? std::string() : std::move(names.front());
}

Result<Options> parse_options(const ModelFlags& flags) {
  Options options;
  FUSEC_ASSIGN(options.device, choose_device(flags));
  FUSEC_ASSIGN(options.codegen, parse_codegen(flags));
  FUSEC_TRY(add_tuning(flags, options));
  FUSEC_ASSIGN(options.specialize, parse_specialize(flags));
  options.tf32 = flags.tf32;
  options.batch_invariant = flags.batch_invariant;
  options.cuda_graph = !flags.no_cuda_graph;
  if (flags.workspace_limit) {
    if (!(*flags.workspace_limit >= 0 && *flags.workspace_limit < 1e9)) {
      return Status(StatusCode::invalid_argument, "--workspace-limit is a number of MiB, at least 0");
    }
    options.workspace_limit = static_cast<int64_t>(*flags.workspace_limit * (1 << 20));
  }
  if (flags.compile_limit && !(*flags.compile_limit >= 0)) {
    return Status(StatusCode::invalid_argument, "--compile-limit is a number of seconds, at least 0");
  }
  options.compile_seconds = flags.compile_limit;
  if (flags.precision == "f16" || flags.precision == "bf16") {
    options.precision = parse_dtype(flags.precision);
  } else if (flags.precision != "f32") {
    return reject_value("--precision", flags.precision, "f32, f16, bf16");
  }
  if (flags.numerics == "exact") {
    options.numerics = Numerics::exact;
  } else if (flags.numerics == "fast") {
    options.numerics = Numerics::fast;
  } else if (flags.numerics != "precise") {
    return reject_value("--numerics", flags.numerics, "precise, exact, fast");
  }
  if (flags.threads < 0)
    return Status(StatusCode::invalid_argument, "--threads is negative; 0 means as many as there are");
  options.threads = flags.threads;
  if (!flags.cache_dir.empty()) options.cache_dir = flags.cache_dir;
  options.use_cache = !flags.no_cache;
  if (!flags.cache_limit.empty()) {
    FUSEC_ASSIGN(options.cache_limit, parse_size(flags.cache_limit, "--cache-limit"));
  }
  options.use_library = !flags.no_library;
  options.fuse = !flags.no_fusion;
  options.disabled_passes = flags.disabled_passes;
  FUSEC_ASSIGN(options.target, single_target(flags));
  options.dump_dir = flags.dump;
  if (!flags.dump.empty()) {
    std::error_code error;
    std::filesystem::create_directories(flags.dump, error);
    if (error) {
      return Status(StatusCode::invalid_argument,
                    fmt::format("--dump {} cannot be made: {}", flags.dump, error.message()));
    }
  }
  return options;
}

const char* numerics_name(Numerics numerics) {
  constexpr const char* kNames[] = {"precise", "exact", "fast"};
  return kNames[static_cast<std::size_t>(numerics)];
}

std::string runs_on(const Engine& engine) {
  const char* const numerics = numerics_name(engine.state()->options.numerics);
  const std::string where = to_string(engine.device()) + ", " + engine.target().name;
  if (engine.device().kind == TargetKind::cuda) return fmt::format("{}, {}", where, numerics);
  return fmt::format("{}, {} threads, {}", where, engine.threads(), numerics);
}

Result<std::vector<Tensor>> on_device(const Engine& engine, const std::vector<Tensor>& tensors) {
  if (engine.device().kind == TargetKind::cpu) return tensors;
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) {
    FUSEC_ASSIGN(Tensor moved, make_tensor(engine.device(), t.dtype(), t.shape()));
    FUSEC_TRY(copy(t, moved));
    out.push_back(std::move(moved));
  }
  return out;
}

Result<std::vector<Tensor>> make_outputs(const Engine& engine, const std::vector<TensorShape>& shapes) {
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    FUSEC_ASSIGN(Tensor tensor, make_tensor(engine.device(), engine.outputs()[i].dtype, shapes[i]));
    out.push_back(std::move(tensor));
  }
  return out;
}

Json json_of_tensors(const std::vector<TensorInfo>& infos, const std::vector<TensorShape>& shapes) {
  Json list = Json::array();
  for (std::size_t i = 0; i < infos.size(); ++i) {
    list.push_back({{"name", infos[i].name},
                    {"dtype", to_string(infos[i].dtype)},
                    {"shape", shapes[i]},
                    {"declared", to_string(infos[i].shape)}});
  }
  return list;
}

std::string symbols_text(const Symbols& symbols, const ir::Limits& limits) {
  std::string out;
  for (const auto& [name, value] : symbols) {
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, value);
    if (const auto limit = limits.find(Dim::symbol(name)); limit != limits.end())
      out += fmt::format(" ({})", ir::range_text(limit->second));
  }
  for (const auto& [extent, range] : limits)
    if (!extent.as_symbol()) out += fmt::format(", {}: {}", extent.str(), ir::range_text(range));
  return out;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) out.push_back(part);
  return out;
}

std::string time_text(int64_t seconds) {
  char text[32];
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  gmtime_r(&time, &parts);
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

Result<int64_t> parse_size(const std::string& text, const char* flag) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string unit(rest, end);
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  if (error != std::errc() || shift < 0 || value < 0 || value > (INT64_MAX >> shift)) {
    return Status(StatusCode::invalid_argument, fmt::format("{} '{}' is no size such as 500M or 1G", flag, text));
  }
  return value << shift;
}

Result<std::vector<int64_t>> parse_integers(const std::string& text, char separator, const std::string& what) {
  std::vector<int64_t> out;
  for (const std::string& part : split(text, separator)) {
    int64_t value = 0;
    const auto [rest, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || rest != part.data() + part.size() || value < 0) {
      return Status(StatusCode::invalid_argument, fmt::format("{}: '{}' is no extent", what, part));
    }
    out.push_back(value);
  }
  return out;
}

}  // namespace fusec::tool

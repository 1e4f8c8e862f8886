// SPDX-License-Identifier: Apache-2.0
// Declares the command-line flags that several commands share and converts them to Options. Unknown values are refused
// here, so commands may rely on the Options.

#include "runtime/tool/common.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <sstream>
#include <type_traits>

#include "fusec/device.h"
#include "ir/graph/limits.h"
#include "runtime/options/keys.h"
#include "runtime/plan/state.h"

namespace fusec::tool {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// CPU time at start-up stands for what the loader took before main.
const double kBeforeMain = 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
const Clock::time_point kStart = Clock::now();

// The flag has the name of the option.
Status set_flag(Options& options, const char* option, const std::string& value) {
  return runtime::set_option(options, option, value, "--");
}

Status set_number(Options& options, const char* option, const std::optional<double>& value) {
  return value ? set_flag(options, option, fmt::format("{}", *value)) : Status();
}

// An empty text is a flag that was not given.
Status set_text(Options& options, const char* option, const std::string& value) {
  return value.empty() ? Status() : set_flag(options, option, value);
}

Result<std::string> choose_device(const ModelFlags& flags) {
  if (!flags.device.empty()) return flags.device;
  FUSEC_ASSIGN(const std::string name, single_target(flags));
  const Result<Target> target = named_target(name);
  if (target.ok() && target->kind == TargetKind::cpu) return std::string("cpu");
  return std::string(gpu_status().ok() ? "cuda:0" : "cpu");
}

Status add_tuning(const ModelFlags& flags, Options& options) {
  FUSEC_TRY(set_flag(options, "strategy", flags.strategy));
  if (flags.batch_invariant && (flags.strategy == "profile" || !flags.tune.empty())) {
    return Status(StatusCode::invalid_argument,
                  "--batch-invariant looks at no measured times, so there is nothing to measure for it");
  }
  FUSEC_TRY(set_text(options, "tuning-db", flags.tuning_db));
  FUSEC_TRY(set_text(options, "tune", flags.tune));
  if (!flags.tune.empty() && flags.strategy != "cached" && flags.strategy != "profile") {
    return Status(StatusCode::invalid_argument, "--tune is a --strategy profile, not " + flags.strategy);
  }
  return {};
}

}  // namespace

double process_ms() { return kBeforeMain + milliseconds_since(kStart); }

namespace {

// The flag of an option, with the help of its key.
template <class T>
void declare(Flags& flags, const char* option, T& to, const char* more = "") {
  const std::string name = std::string("--") + option, help = std::string(runtime::option_help(option)) + more;
  if constexpr (std::is_same_v<T, bool>) {
    flags.flag(name, to, help);
  } else {
    flags.option(name, to, help);
  }
}

void declare_compiling(Flags& flags, ModelFlags& to) {
  declare(flags, "device", to.device, "; default: cuda:0 where one is usable, else cpu");
  declare(flags, "target", to.targets, "; stages up to emit need none");
  declare(flags, "threads", to.threads);
  declare(flags, "numerics", to.numerics);
  declare(flags, "precision", to.precision);
  declare(flags, "keep-f32", to.keep_f32);
  declare(flags, "no-library", to.no_library);
  declare(flags, "batch-invariant", to.batch_invariant);
  declare(flags, "no-fusion", to.no_fusion);
  declare(flags, "codegen", to.codegen);
  declare(flags, "compile-limit", to.compile_limit);
  declare(flags, "disable-pass", to.disabled_passes);
  declare(flags, "replaceable-weights", to.replaceable_weights);
  declare(flags, "dump", to.dump);
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
  declare(flags, "tf32", to.tf32);
  declare(flags, "workspace-limit", to.workspace_limit);
  declare(flags, "tuning-db", to.tuning_db);
}

void declare_runs(Flags& flags, ModelFlags& to) {
  declare(flags, "no-cuda-graph", to.no_cuda_graph);
  declare(flags, "strategy", to.strategy);
  declare(flags, "specialize", to.specialize);
  declare(flags, "tune", to.tune);
}

}  // namespace

void declare_common(Flags& flags, ModelFlags& to, unsigned groups) {
  if (groups & kShapes) {
    flags.option("--shape", to.shapes, "NAME=1x3x224x224 for an input, N=8 for a symbol; an unset symbol is 1");
    flags.option("--input", to.inputs,
                 "NAME=@FILE (.npy, .npz, .json) | random:SEED | zeros | ones; without: random:0");
    flags.option("--inputs", to.input_set,
                 "FILE.npz or FILE.json, an object of nested lists: inputs by name; --input goes first");
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
    declare(flags, "cache-dir", to.cache_dir);
    declare(flags, "shared-cache-dir", to.shared_cache_dir);
    declare(flags, "cache-server", to.cache_server);
    declare(flags, "cache-limit", to.cache_limit);
    declare(flags, "no-cache", to.no_cache);
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
  FUSEC_ASSIGN(const std::string device, choose_device(flags));
  FUSEC_TRY(set_flag(options, "device", device));
  FUSEC_TRY(set_flag(options, "codegen", flags.codegen));
  FUSEC_TRY(add_tuning(flags, options));
  FUSEC_TRY(set_flag(options, "specialize", flags.specialize));
  options.tf32 = flags.tf32;
  options.batch_invariant = flags.batch_invariant;
  options.cuda_graph = !flags.no_cuda_graph;
  FUSEC_TRY(set_number(options, "workspace-limit", flags.workspace_limit));
  FUSEC_TRY(set_number(options, "compile-limit", flags.compile_limit));
  FUSEC_TRY(set_flag(options, "precision", flags.precision));
  FUSEC_TRY(set_flag(options, "numerics", flags.numerics));
  FUSEC_TRY(set_flag(options, "threads", std::to_string(flags.threads)));
  FUSEC_TRY(set_text(options, "cache-dir", flags.cache_dir));
  FUSEC_TRY(set_text(options, "shared-cache-dir", flags.shared_cache_dir));
  FUSEC_TRY(set_text(options, "cache-server", flags.cache_server));
  options.use_cache = !flags.no_cache;
  FUSEC_TRY(set_text(options, "cache-limit", flags.cache_limit));
  options.use_library = !flags.no_library;
  options.fuse = !flags.no_fusion;
  options.disabled_passes = flags.disabled_passes;
  options.keep_f32 = flags.keep_f32;
  if (!flags.keep_f32.empty() && !options.precision)
    return Status(StatusCode::invalid_argument, "--keep-f32 says what --precision f16 or bf16 leaves: give that too");
  options.replaceable_weights = flags.replaceable_weights;
  FUSEC_ASSIGN(options.target, single_target(flags));
  FUSEC_TRY(set_text(options, "dump", flags.dump));
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

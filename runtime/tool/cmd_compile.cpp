// SPDX-License-Identifier: Apache-2.0
// Implements `fusec compile`: compiles a model into the kernel cache or, with `-o FILE.fsc`, into a package for one or
// more targets. It runs no model.

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>

#include "fusec/device.h"
#include "fusec/package.h"
#include "runtime/cache/artifact.h"
#include "runtime/device/device.h"
#include "runtime/engine/engine.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/model_file.h"
#include "runtime/tool/shard.h"

namespace fusec::tool {
namespace {

struct CompileFlags : ModelFlags {
  std::string output, sign, shard;
};

Json stages_json(const EngineStats& stats) {
  Json stages = Json::object();
  for (const StageTime& stage : stats.stages) stages[stage.stage] = stage.ms;
  return stages;
}

Json kernels_json(const EngineStats& stats) {
  Json kernels = Json::array();
  for (const KernelTime& time : stats.kernels) kernels.push_back({{"kernel", time.kernel}, {"ms", time.ms}});
  return kernels;
}

// Each stage, and each kernel that was compiled.
void print_times(const EngineStats& stats) {
  for (const StageTime& stage : stats.stages) print_text(fmt::format("  {:<10} {:8.2f} ms", stage.stage, stage.ms));
  double sum = 0;
  for (const KernelTime& time : stats.kernels) sum += time.ms;
  if (stats.kernels.empty()) return;
  print_text(fmt::format("{} kernels in {:.1f} ms of one core:", stats.kernels.size(), sum));
  for (const KernelTime& time : stats.kernels) print_text(fmt::format("  {:8.2f} ms  {}", time.ms, time.kernel));
}

Json make_json(const Engine& engine, const Loaded& loaded, const std::string& cache) {
  const EngineStats& stats = engine.stats();
  return {{"device", to_string(engine.device())},
          {"target", engine.target().name},
          {"ops", stats.imported_ops},
          {"compile_ms", loaded.load_ms + stats.compile_ms},
          {"weights_ms", loaded.weights_ms + stats.weights_ms},
          {"distinct_kernels", stats.distinct_kernels},
          {"compiled_kernels", stats.compiled_kernels},
          {"cached_kernels", stats.cached_kernels},
          {"shared_kernels", stats.shared_kernels},
          {"server_kernels", stats.server_kernels},
          {"damaged_entries", stats.damaged_entries},
          {"code_bytes", stats.code_bytes},
          {"cache", cache},
          {"stages_ms", stages_json(stats)},
          {"kernels", kernels_json(stats)}};
}

Result<bool> compile_into_cache(const CompileFlags& flags) {
  FUSEC_ASSIGN(const Options options, parse_options(flags));
  FUSEC_ASSIGN(const Loaded loaded, load_model(flags));
  FUSEC_ASSIGN(const Engine engine, compile_model(loaded.model, options));
  const std::string cache = options.use_cache ? runtime::cache_root(options) : "";
  if (flags.json) {
    print(make_json(engine, loaded, cache));
    return true;
  }
  const EngineStats& stats = engine.stats();
  print_text(fmt::format("{} ops -> {} kernels for {}: {} compiled, {} from the cache, {} of code; {:.1f} ms",
                         stats.imported_ops, stats.distinct_kernels, engine.target().name, stats.compiled_kernels,
                         stats.cached_kernels, bytes_text(stats.code_bytes), loaded.load_ms + stats.compile_ms));
  print_text(cache.empty() ? "the kernel cache is off" : "cache: " + cache);
  if (!flags.verbose) return true;
  print_text(fmt::format("  {:<10} {:8.2f} ms", "import", loaded.load_ms));
  print_times(stats);
  return true;
}

// Without --target: what this machine is, or the GPU that --device names.
Result<std::vector<std::string>> choose_targets(const CompileFlags& flags, const Options& options) {
  std::vector<std::string> targets = listed_targets(flags);
  if (!targets.empty()) return targets;
  if (flags.device.empty() || options.device == "cpu") return std::vector<std::string>{"cpu:native"};
  FUSEC_ASSIGN(const runtime::Machine machine, runtime::open_machine(options));
  return std::vector<std::string>{"cuda:" + machine.target.name};
}

Result<std::vector<EngineStats>> write_file(const Model& model, const std::vector<std::string>& targets,
                                            const std::string& path, const Options& options,
                                            const std::optional<SigningKey>& key) {
  const auto progress = std::make_shared<Progress>(fmt::format("compiling for {}", fmt::join(targets, ", ")));
  return runtime::write_package(model, targets, path, with_progress(options, progress), key);
}

Result<bool> compile_into_package(CompileFlags flags) {
  const CompileFlags given = flags;
  flags.targets.clear();  // more than one may be named
  if (flags.device.empty()) flags.device = "cpu";
  FUSEC_ASSIGN(const Options options, parse_options(flags));
  FUSEC_ASSIGN(const std::vector<std::string> targets, choose_targets(given, options));
  std::optional<SigningKey> key;
  if (!flags.sign.empty()) {
    FUSEC_ASSIGN(key, read_signing_key(flags.sign));
  }
  FUSEC_ASSIGN(const Loaded loaded, load_model(flags));
  const auto start = std::chrono::steady_clock::now();
  FUSEC_ASSIGN(const std::vector<EngineStats> stats, write_file(loaded.model, targets, flags.output, options, key));
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  FUSEC_ASSIGN(const Package package,
               Package::open(flags.output, {.trust = true, .verify_key = {}}));  // to look at, not to run
  const PackageInfo& info = package.info();
  Json sections = Json::array();
  Table table({"section", "bytes"});
  for (const PackageSection& s : info.sections) {
    sections.push_back({{"name", s.name}, {"bytes", s.bytes}, {"sha256", s.sha256}});
    table.row({s.name, bytes_text(s.bytes)});
  }
  if (flags.json) {
    Json compiles = Json::array();  // in the order of the targets
    for (const EngineStats& s : stats) {
      compiles.push_back({{"distinct_kernels", s.distinct_kernels},
                          {"compiled_kernels", s.compiled_kernels},
                          {"stages_ms", stages_json(s)},
                          {"kernels", kernels_json(s)}});
    }
    print(Json{{"file", flags.output},
               {"bytes", info.file_bytes},
               {"targets", info.targets},
               {"compile_ms", loaded.load_ms + ms},
               {"weights_ms", loaded.weights_ms},
               {"signed_by", info.signed_by.empty() ? Json() : Json(info.signed_by)},
               {"sections", sections},
               {"compiles", compiles}});
    return true;
  }
  print_text(fmt::format("'{}': {} for {} in {:.1f} ms", flags.output, bytes_text(info.file_bytes),
                         fmt::join(info.targets, ", "), ms));
  print_text(table.str());
  for (std::size_t i = 0; flags.verbose && i < stats.size(); ++i) {
    print_text(targets[i] + ":");
    print_times(stats[i]);
  }
  print_text("run it: fusec run " + flags.output);
  return true;
}

// A part of the kernels, into the cache.
Result<bool> compile_part(CompileFlags flags) {
  const std::vector<std::string> targets = listed_targets(flags);
  FUSEC_ASSIGN(const runtime::Shard shard,
               parse_shard(flags.shard, [](const char* name) { return std::getenv(name); }));
  flags.targets.clear();  // more than one may be named
  if (!targets.empty() && flags.device.empty()) flags.device = "cpu";
  FUSEC_ASSIGN(const Options options, parse_options(flags));
  if (!flags.output.empty() || !options.use_cache) {
    return Status(StatusCode::invalid_argument,
                  "--shard fills the kernel cache; leave out -o and --no-cache, and compile without --shard when all "
                  "parts are done");
  }
  FUSEC_ASSIGN(const Loaded loaded, load_model(flags));
  runtime::KernelShard part{shard};
  FUSEC_ASSIGN(const std::vector<EngineStats> stats, runtime::compile_shard(loaded.model, targets, options, part));
  int64_t compiled = 0, cached = 0;
  for (const EngineStats& s : stats) compiled += s.compiled_kernels, cached += s.cached_kernels;
  const std::string cache = runtime::cache_root(options);
  if (flags.json) {
    print(Json{{"shard", shard.index},
               {"shards", shard.count},
               {"compiled_kernels", compiled},
               {"cached_kernels", cached},
               {"elsewhere", part.elsewhere},
               {"cache", cache}});
    return true;
  }
  print_text(fmt::format("part {} of {}: {} kernels compiled, {} from the cache, {} left to the other parts",
                         shard.index, shard.count, compiled, cached, part.elsewhere));
  print_text("cache: " + cache);
  return true;
}

Result<bool> compile(const CompileFlags& flags) {
  if (!flags.shard.empty()) return compile_part(flags);
  if (flags.output.empty() && !flags.sign.empty()) {
    return Status(StatusCode::invalid_argument, "--sign signs a package; add -o FILE.fsc");
  }
  return flags.output.empty() ? compile_into_cache(flags) : compile_into_package(flags);
}

}  // namespace

Command compile_command() {
  auto flags = std::make_shared<CompileFlags>();
  return {"compile", "compile a model ahead of time: into one file, or into the kernel cache",
          "  fusec compile model.onnx -o model.fsc --target cpu:x86-64-v3 --target cuda:sm_80 --target cuda:sm_90\n"
          "                                                    a package: run, bench and inspect take it where there "
          "is no compiler;\n"
          "                                                    no GPU is needed to write it\n"
          "  fusec compile model.onnx -o model.fsc             for this machine's CPU (cpu:native)\n"
          "  fusec compile model.onnx -o model.fsc --sign key.pem\n"
          "                                                    signed: fusec run model.fsc --verify-key key.pub.pem. "
          "Keys:\n"
          "                                                    openssl genpkey -algorithm ed25519 -out key.pem\n"
          "                                                    openssl pkey -in key.pem -pubout -out key.pub.pem\n"
          "  fusec compile model.onnx --precision f16 -o half.fsc --target cuda:sm_90\n"
          "  fusec compile decoder.onnx --fix batch=1 --range past=:2048 -o decoder.fsc\n"
          "                                                    for batch 1 and at most 2048 stored keys; it refuses "
          "others\n"
          "  fusec compile model.onnx --cache-dir /var/cache/app -v\n"
          "                                                    kernels into the cache, so that later starts are "
          "quick\n"
          "  mpirun -n 4 fusec compile model.onnx --target cuda:sm_90 --shard auto\n"
          "                                                    a part of the kernels each; then once without --shard",
          [flags](Flags& f) {
            declare_model(f, *flags, kWeights | kCompiles | kCaches | kLibraries | kVerbose);
            f.option("--sign", flags->sign, "KEY.pem, an Ed25519 private key: with -o, signs the package");
            f.option(
                "--shard", flags->shard,
                "I/N: compile only part I (0 to N-1) of N into the kernel cache, as each of N processes does; auto "
                "or auto/N: the part that mpirun, srun, torchrun or a Kubernetes job gives this process");
            f.option("-o,--output", flags->output, "FILE.fsc: writes a package; without: fills the kernel cache");
          },
          [flags] { return compile(*flags); }};
}

}  // namespace fusec::tool

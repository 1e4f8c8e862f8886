// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "fusec/device.h"
#include "runtime/cache/artifact.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/common.h"

namespace fusec::tool {
namespace {

Json json_of(const Engine& engine, const Loaded& loaded, const std::string& cache) {
  const EngineStats& stats = engine.stats();
  Json stages = Json::object();
  for (const StageTime& stage : stats.stages) stages[stage.stage] = stage.ms;
  return {{"device", to_string(engine.device())},
          {"target", engine.target().name},
          {"ops", stats.imported_ops},
          {"compile_ms", loaded.load_ms + stats.compile_ms},
          {"weights_ms", loaded.weights_ms},
          {"distinct_kernels", stats.distinct_kernels},
          {"compiled_kernels", stats.compiled_kernels},
          {"cached_kernels", stats.cached_kernels},
          {"code_bytes", stats.code_bytes},
          {"cache", cache},
          {"stages_ms", stages}};
}

Result<bool> compile(const ModelFlags& flags) {
  FUSEC_ASSIGN(const Options options, options_of(flags));
  FUSEC_ASSIGN(const Loaded loaded, load_model(flags));
  FUSEC_ASSIGN(const Engine engine, compile_model(loaded.model, options));
  const std::string cache = options.use_cache ? runtime::cache_root(options) : "";
  if (flags.json) {
    print(json_of(engine, loaded, cache));
    return true;
  }
  const EngineStats& stats = engine.stats();
  print_text(fmt::format("{} ops -> {} kernels for {}: {} compiled, {} from the cache, {} of code; {:.1f} ms", stats.imported_ops,
                         stats.distinct_kernels, engine.target().name, stats.compiled_kernels, stats.cached_kernels,
                         bytes_text(stats.code_bytes), loaded.load_ms + stats.compile_ms));
  print_text(cache.empty() ? "the kernel cache is off" : "cache: " + cache);
  if (!flags.verbose) return true;
  print_text(fmt::format("  {:<10} {:8.2f} ms", "import", loaded.load_ms));
  for (const StageTime& stage : stats.stages) print_text(fmt::format("  {:<10} {:8.2f} ms", stage.stage, stage.ms));
  return true;
}

}  // namespace

Command compile_command() {
  auto flags = std::make_shared<ModelFlags>();
  return {"compile", "compile a model's kernels into the kernel cache, so that later starts are quick",
          "  fusec compile model.onnx --random-weights 1\n"
          "  fusec compile model.onnx --cache-dir /var/cache/app -v\n"
          "\nThe result is the cache's entries alone; a file that holds a whole compiled model is not written by this version.",
          [flags](Flags& f) { declare_model(f, *flags); }, [flags] { return compile(*flags); }};
}

}  // namespace fusec::tool

// SPDX-License-Identifier: Apache-2.0
// The line of the compiler, written out once: optimize, partition, lower, select, emit, link, bind.
#include "fusec/engine.h"

#include <chrono>
#include <utility>

#include "codegen/emit.h"
#include "ir/graph.h"
#include "ir/support/dump.h"
#include "runtime/device/host/detect.h"
#include "runtime/engine_kernels.h"
#include "runtime/engine_stages.h"
#include "runtime/guard.h"
#include "runtime/state.h"

namespace fusec {
namespace {

using Clock = std::chrono::steady_clock;

// LLVM takes some 100 MB per compile side by side.
constexpr int kMaxCompilers = 8;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The code of each kernel as the writer prints it.
Status dump_code(const ir::Program& program, const Target& target, const std::string& dir) {
  if (dir.empty()) return {};
  for (const ir::KernelId id : runtime::picked_kernels(program)) {
    FUSEC_ASSIGN(const std::string text, codegen::emit_text(program.kernels[id], target));
    FUSEC_TRY(ir::dump(dir, "emit." + program.kernels[id].name + ".ll", [&] { return text; }));
  }
  return {};
}

int compile_threads(const Options& options) {
  Options machine = options;
  machine.threads = 0;  // compiling is not bound by the threads of a run
  return std::min(runtime::host_threads(machine), kMaxCompilers);
}

void note_counts(const runtime::LoadedProgram& loaded, const runtime::KernelCounts& counts, EngineStats& stats) {
  stats.imported_ops = loaded.program.imported_ops;
  stats.distinct_kernels = counts.distinct;
  stats.compiled_kernels = counts.compiled;
  stats.cached_kernels = counts.cached;
  stats.code_bytes = static_cast<int64_t>(loaded.code.bytes());
  for (const Tensor& constant : loaded.program.constants)
    stats.constant_bytes += static_cast<int64_t>(constant.bytes());
  stats.notes = loaded.program.notes;
}

std::vector<TensorInfo> tensor_infos(const std::vector<std::string>& names, const std::vector<ir::Type>& types) {
  std::vector<TensorInfo> out;
  for (std::size_t i = 0; i < types.size(); ++i) out.push_back({names[i], types[i].dtype, types[i].shape});
  return out;
}

}  // namespace

Result<Engine> runtime::compile_for(const Model& model, const Options& options, const Target& target) {
  if (!model.graph) return Status(StatusCode::invalid_argument, "the Model holds no graph");
  const Clock::time_point start = Clock::now();
  auto state = std::make_shared<runtime::EngineState>();
  state->target = target;
  state->options = options;
  state->threads = state->target.threads;
  FUSEC_ASSIGN(Stages stages, run_stages(*model.graph, target, options, Stage::select));
  ir::Program& program = stages.program;
  state->stats.stages = std::move(stages.times);
  FUSEC_TRY(dump_code(program, target, options.dump_dir));
  runtime::KernelCounts counts;
  FUSEC_ASSIGN(const runtime::Artifacts artifacts, timed_stage(state->stats.stages, "emit", [&] {
                 const std::unique_ptr<runtime::KernelCache> cache = runtime::KernelCache::open(options);
                 return runtime::obtain_kernels(program, state->target, options.codegen, cache.get(), options.use_cache,
                                                compile_threads(options), counts);
               }));
  FUSEC_ASSIGN(state->loaded, timed_stage(state->stats.stages, "link", [&] {
                 return runtime::link(std::move(program), artifacts, runtime::host_libraries(options));
               }));
  if (state->program().symbols.empty()) {
    FUSEC_TRY(timed_stage(state->stats.stages, "bind", [&] { return state->plan(runtime::Bindings()).status(); }));
  }
  state->inputs = tensor_infos(state->program().input_names, state->program().input_types);
  state->outputs = tensor_infos(state->program().output_names, state->program().output_types);
  note_counts(*state->loaded, counts, state->stats);
  state->stats.compile_ms = milliseconds_since(start);
  return Engine(std::shared_ptr<const runtime::EngineState>(std::move(state)));
}

Result<Engine> Engine::compile(const Model& model, const Options& options) {
  return runtime::guarded([&]() -> Result<Engine> {
    FUSEC_ASSIGN(const Target target, runtime::host_target(options));
    return runtime::compile_for(model, options, target);
  });
}

}  // namespace fusec

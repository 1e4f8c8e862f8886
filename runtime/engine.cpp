// SPDX-License-Identifier: Apache-2.0
// The line of the compiler, written out once: optimize, partition, lower, select, emit, link, bind.
#include "fusec/engine.h"

#include <chrono>
#include <utility>

#include "codegen/emit.h"
#include "ir/graph.h"
#include "ir/support/dump.h"
#include "runtime/device/host/detect.h"
#include "runtime/device/open.h"
#include "runtime/engine_kernels.h"
#include "runtime/engine_stages.h"
#include "runtime/guard.h"
#include "runtime/state.h"
#if FUSEC_WITH_CUDA
#include "runtime/device/cuda/library_memory.h"
#include "runtime/device/cuda/link.h"
#endif

namespace fusec {
namespace {

using Clock = std::chrono::steady_clock;

// LLVM takes some 100 MB per compile side by side.
constexpr int kMaxCompilers = 8;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The code of each kernel as the writer prints it.
Status dump_code(const ir::Program& program, const Target& target, const Options& options) {
  if (options.dump_dir.empty()) return {};
  const bool cuda_text = target.kind == TargetKind::cuda && options.codegen != Codegen::llvm;
  for (const ir::KernelId id : runtime::picked_kernels(program)) {
    FUSEC_ASSIGN(const std::string text, codegen::emit_text(program.kernels[id], target, options.codegen));
    const std::string file = "emit." + program.kernels[id].name + (cuda_text ? ".cu" : ".ll");
    FUSEC_TRY(ir::dump(options.dump_dir, file, [&] { return text; }));
  }
  return {};
}

#if FUSEC_WITH_CUDA
Result<std::shared_ptr<const runtime::LoadedProgram>> link_gpu(ir::Program program, const runtime::Artifacts& artifacts,
                                                               const Options& options, const runtime::Machine& machine,
                                                               EngineStats& stats) {
  const Clock::time_point start = Clock::now();
  const runtime::cuda::Current current(*machine.context);
  FUSEC_TRY(current.status());
  auto libraries = runtime::cuda_libraries(options, runtime::cuda::make_library_memory(machine.context));
  stats.device_ms += milliseconds_since(start);
  return runtime::cuda::link(std::move(program), artifacts, std::move(libraries), machine.context, &stats.weights_ms);
}
#else
Result<std::shared_ptr<const runtime::LoadedProgram>> link_gpu(ir::Program, const runtime::Artifacts&, const Options&,
                                                               const runtime::Machine&, EngineStats&) {
  return Status(StatusCode::device, "this build has no GPU support");
}
#endif

Result<std::shared_ptr<const runtime::LoadedProgram>> link_for(ir::Program program, const runtime::Artifacts& artifacts,
                                                               const Options& options, const runtime::Machine& machine,
                                                               EngineStats& stats) {
  if (machine.device.kind == TargetKind::cuda) return link_gpu(std::move(program), artifacts, options, machine, stats);
  return runtime::link(std::move(program), artifacts, runtime::host_libraries(options));
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
  if (loaded.device) {
    for (const auto& artifact : loaded.artifacts) stats.code_bytes += static_cast<int64_t>(artifact->image.size());
  }
  for (const Tensor& constant : loaded.program.constants)
    stats.constant_bytes += static_cast<int64_t>(constant.bytes());
  stats.notes = loaded.program.notes;
}

std::vector<TensorInfo> tensor_infos(const std::vector<std::string>& names, const std::vector<ir::Type>& types) {
  std::vector<TensorInfo> out;
  for (std::size_t i = 0; i < types.size(); ++i) out.push_back({names[i], types[i].dtype, types[i].shape});
  return out;
}

Result<Engine> compile_on(const Model& model, const Options& options, const runtime::Machine& machine, double device_ms) {
  using namespace runtime;  // NOLINT: the line, stage by stage
  if (!model.graph) return Status(StatusCode::invalid_argument, "the Model holds no graph");
  const Clock::time_point start = Clock::now();
  auto state = std::make_shared<EngineState>();
  state->device = machine.device;
  state->target = machine.target;
  state->options = options;
  state->threads = state->target.threads;
  FUSEC_ASSIGN(Stages stages, run_stages(*model.graph, state->target, options, Stage::select));
  ir::Program& program = stages.program;
  state->stats.stages = std::move(stages.times);
  FUSEC_TRY(dump_code(program, state->target, options));
  KernelCounts counts;
  FUSEC_ASSIGN(const Artifacts artifacts, timed_stage(state->stats.stages, "emit", [&] {
                 const std::unique_ptr<KernelCache> cache = KernelCache::open(options);
                 return obtain_kernels(program, state->target, options.codegen, cache.get(), options.use_cache,
                                       compile_threads(options), runtime::warn_of(options), counts);
               }));
  FUSEC_ASSIGN(state->loaded, timed_stage(state->stats.stages, "link", [&] {
                 return link_for(std::move(program), artifacts, options, machine, state->stats);
               }));
  if (state->program().symbols.empty()) {
    FUSEC_TRY(timed_stage(state->stats.stages, "bind", [&] { return state->plan(Bindings()).status(); }));
  }
  state->inputs = tensor_infos(state->program().input_names, state->program().input_types);
  state->outputs = tensor_infos(state->program().output_names, state->program().output_types);
  note_counts(*state->loaded, counts, state->stats);
  state->stats.compile_ms = milliseconds_since(start) - state->stats.device_ms - state->stats.weights_ms;
  state->stats.device_ms += device_ms;
  return Engine(std::shared_ptr<const EngineState>(std::move(state)));
}

}  // namespace

Result<Engine> runtime::compile_for(const Model& model, const Options& options, const Target& target) {
  return compile_on(model, options, {Device{}, target, nullptr}, 0);
}

Result<Engine> Engine::compile(const Model& model, const Options& options) {
  return runtime::guarded([&]() -> Result<Engine> {
    const Clock::time_point start = Clock::now();
    FUSEC_ASSIGN(const runtime::Machine machine, runtime::open_machine(options));
    const double device_ms = machine.device.kind == TargetKind::cuda ? milliseconds_since(start) : 0;
    return compile_on(model, options, machine, device_ms);
  });
}

}  // namespace fusec

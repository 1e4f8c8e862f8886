// SPDX-License-Identifier: Apache-2.0
// Completes an Engine from a Program and its artifacts: opens the libraries, links for the device, and binds at once if
// the Program has no symbols. Both a compiled model and a loaded package go through this file.

#include "runtime/load/assemble.h"

#include <chrono>
#include <utility>

#include "ir/support/stage_context.h"
#include "runtime/library/calls/calls.h"

#if FUSEC_WITH_CUDA
#include "runtime/run/cuda/link.h"
#endif

namespace fusec::runtime {
namespace {

using Loaded = Result<std::shared_ptr<const LoadedProgram>>;

#if FUSEC_WITH_CUDA
Loaded link_on_gpu(ir::Program program, const Parts& parts, EngineStats& stats) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const cuda::Current current(*parts.machine.context);
  FUSEC_TRY(current.status());
  auto libraries = cuda_libraries(parts.options, cuda::make_library_memory(parts.machine.context));
  stats.device_ms += std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  return cuda::link(std::move(program), parts.artifacts, std::move(libraries), parts.machine.context, &stats.weights_ms,
                    parts.obtain);
}
#else
Loaded link_on_gpu(ir::Program, const Parts&, EngineStats&) {
  return Status(StatusCode::device, "this build has no GPU support");
}
#endif

Loaded link_on(ir::Program program, const Parts& parts, EngineStats& stats) {
  if (parts.machine.device.kind == TargetKind::cuda) return link_on_gpu(std::move(program), parts, stats);
  return link(std::move(program), parts.artifacts, host_libraries(parts.options), parts.obtain);
}

#if FUSEC_WITH_CUDA
Loaded link_alone_on_gpu(ir::Program program, const Artifacts& artifacts, const Machine& machine) {
  const cuda::Current current(*machine.context);
  FUSEC_TRY(current.status());
  return cuda::link(std::move(program), artifacts, {}, machine.context);
}
#else
Loaded link_alone_on_gpu(ir::Program, const Artifacts&, const Machine&) {
  return Status(StatusCode::device, "this build has no GPU support");
}
#endif

void note_sizes(const LoadedProgram& loaded, EngineStats& stats) {
  stats.imported_ops = loaded.program.imported_ops;
  stats.code_bytes = static_cast<int64_t>(loaded.code.bytes());
  if (loaded.device) {
    for (const auto& artifact : loaded.artifacts) stats.code_bytes += static_cast<int64_t>(artifact->image.size());
  }
  for (const Tensor& constant : loaded.program.constants)
    stats.constant_bytes += static_cast<int64_t>(constant.bytes());
  stats.notes = loaded.program.notes;
}

void add_specializer(EngineState& state, SpecializeProgram specialize) {
  if (state.options.specialize == Specialize::off || state.program().symbols.empty()) return;
  const Warn warn = make_warn(state.options);
  if (has_weights(state.program()))
    return warn("kernels for the shapes at hand are not made where weights are replaceable (Options::specialize)");
  if (!specialize) return warn("a package has the kernels for all shapes alone; Options::specialize needs the model");
  state.specializer = std::make_unique<Specializer>(std::move(specialize), warn);
}

Result<std::shared_ptr<EngineState>> assemble_once(Parts parts) {
  FUSEC_TRY(check_calls(parts.program, parts.machine.device.kind));
  FUSEC_TRY(ir::Deadline::progress_alone(parts.options).check("link"));
  auto state = std::make_shared<EngineState>();
  state->device = parts.machine.device;
  state->target = parts.machine.target;
  state->threads = state->target.threads;
  state->stats = std::move(parts.stats);
  EngineStats& stats = state->stats;
  FUSEC_ASSIGN(state->loaded,
               timed_stage(stats.stages, "link", [&] { return link_on(std::move(parts.program), parts, stats); }));
  state->options = std::move(parts.options);
  add_specializer(*state, std::move(parts.specialize));
  if (state->program().symbols.empty()) {
    FUSEC_TRY(timed_stage(stats.stages, "bind", [&] { return state->plan(Bindings()).status(); }));
  }
  state->inputs = std::move(parts.inputs);
  state->outputs = tensor_infos(state->program().output_names, state->program().output_types);
  note_sizes(*state->loaded, stats);
  return state;
}

}  // namespace

std::vector<TensorInfo> tensor_infos(const std::vector<std::string>& names, const std::vector<ir::Type>& types) {
  std::vector<TensorInfo> out;
  for (std::size_t i = 0; i < types.size(); ++i) out.push_back({names[i], types[i].dtype, types[i].shape});
  return out;
}

Result<std::shared_ptr<const LoadedProgram>> link_alone(ir::Program program, const Artifacts& artifacts,
                                                        const Machine& machine) {
  if (machine.device.kind == TargetKind::cuda) return link_alone_on_gpu(std::move(program), artifacts, machine);
  return link(std::move(program), artifacts, {});
}

Result<std::shared_ptr<EngineState>> assemble(Parts parts) {
  if (!has_weights(parts.program)) return assemble_once(std::move(parts));
  auto kept = std::make_shared<const Parts>(parts);
  FUSEC_ASSIGN(std::shared_ptr<EngineState> state, assemble_once(std::move(parts)));
  state->weights = Weights::make(kept->program, [kept](const Weights::Contents& contents) {
    Parts changed = *kept;
    changed.options.specialize = Specialize::off;  // which was warned of
    for (const auto& [ordinal, data] : contents) changed.program.constants[ordinal] = data;
    Result<std::shared_ptr<EngineState>> made = assemble_once(std::move(changed));
    if (!made.ok()) return Result<std::shared_ptr<const EngineState>>(made.status());
    return Result<std::shared_ptr<const EngineState>>(*std::move(made));
  });
  return state;
}

}  // namespace fusec::runtime

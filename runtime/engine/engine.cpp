// SPDX-License-Identifier: Apache-2.0
// The line, from top to bottom: run_stages goes from import to select, compile_parts adds emit, and assemble
// (runtime/load/assemble.cpp) links and binds. Nothing else calls one stage after another.
#include "runtime/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "codegen/emit.h"
#include "compiler/lower/gpu/gpu.h"
#include "compiler/select/select.h"
#include "fusec/device.h"
#include "fusec/engine.h"
#include "ir/graph/graph.h"
#include "ir/library/capabilities.h"
#include "ir/support/check.h"
#include "ir/support/stage_context.h"
#include "ir/text/graph_text.h"
#include "ir/text/program_text.h"
#include "runtime/cache/artifact.h"
#include "runtime/device/device.h"
#include "runtime/device/host/detect.h"
#include "runtime/engine/kernel_tuner.h"
#include "runtime/engine/replaceable.h"
#include "runtime/engine/specialize.h"
#include "runtime/plan/state.h"

namespace fusec {
namespace {

using Clock = std::chrono::steady_clock;

// What LLVM or NVRTC takes for one kernel, generously. Kernels that compile side by side may have half of the memory.
constexpr int64_t kCompilerBytes = int64_t{128} << 20;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The code of each kernel as a writer prints it: of a GPU as CUDA C++, unless LLVM was asked for, which says the same.
Status dump_code(const ir::Program& program, const Target& target, const Options& options) {
  if (options.dump_dir.empty()) return {};
  const bool cuda_text = target.kind == TargetKind::cuda && options.codegen != Codegen::llvm;
  for (const ir::KernelId id : runtime::picked_kernels(program)) {
    FUSEC_ASSIGN(const ir::Kernel lowered, compiler::lower_for_writer(program.kernels[id], target));
    FUSEC_ASSIGN(const std::string text, codegen::emit_text(lowered, target, options.codegen));
    const std::string file = "emit." + program.kernels[id].name + (cuda_text ? ".cu" : ".ll");
    FUSEC_TRY(ir::dump(options.dump_dir, file, [&] { return text; }));
  }
  return {};
}

// Refuses what no library of the target computes, or may be asked for, before code is made.
Status check_libraries(const ir::Program& program, const Target& target, const Options& options) {
  const std::vector<const ir::LibraryCapabilities*> libraries = ir::libraries_of(target);
  const auto is_computed = [&](const ir::LibraryStep& call) {
    if (call.op == ir::TensorOp::custom_call) return true;
    return std::any_of(libraries.begin(), libraries.end(), [&](const ir::LibraryCapabilities* library) {
      return (library->is_built_in || options.use_library) && !unsupported_reason(*library, call.op, call.compute);
    });
  };
  for (const ir::Slot& slot : program.slots)
    for (const ir::Variant& variant : slot.variants)
      for (const ir::Step& step : variant.candidates[static_cast<std::size_t>(variant.picked)].steps) {
        const auto* call = std::get_if<ir::LibraryStep>(&step.v);
        if (call == nullptr || is_computed(*call)) continue;
        return Status(StatusCode::unsupported, "a '" + std::string(ir::info(call->op).name) +
                                                   "' whose window is not known when it is compiled needs a library; "
                                                   "give its filter as a constant, leave --no-library out, install "
                                                   "cuDNN, or compile for a CPU")
            .with_note("at " + step.origin);
      }
  return {};
}

int compile_threads(const Options& options) {
  Options machine = options;
  machine.threads = 0;  // compiling is not bound by the threads of a run
  machine.host_threads = nullptr;
  const int64_t affordable = std::max<int64_t>(runtime::host_memory() / 2 / kCompilerBytes, 1);
  return static_cast<int>(std::min<int64_t>(runtime::host_threads(machine), affordable));
}

Result<runtime::Artifacts> emit_kernels(const ir::Program& program, const std::vector<ir::KernelId>& ids,
                                        const Target& target, const Options& options, runtime::KernelCounts& counts,
                                        const ir::Deadline& deadline) {
  if (codegen::evaluates_kernels(target) && !ids.empty())
    runtime::make_warn(options)("this build has no LLVM: kernels are evaluated, which is slow");
  const std::unique_ptr<runtime::KernelCache> cache = runtime::KernelCache::open(options, target.name);
  return runtime::obtain_kernels(program, ids, target, options.codegen, cache.get(), options.use_cache,
                                 compile_threads(options), runtime::make_warn(options), counts, deadline);
}

// Takes the kernels of other shards out; how many there were.
int64_t leave_to_others(std::vector<ir::KernelId>& ids, const ir::Program& program, const Target& target,
                        const Options& options, const runtime::Shard& shard) {
  return static_cast<int64_t>(std::erase_if(ids, [&](ir::KernelId id) {
    return !shard.has(codegen::artifact_key(program.kernels[id], target, options.codegen));
  }));
}

// For binds that need more than the usual kernels, each with the time that a compile has.
runtime::ObtainKernels obtain_later(const Target& target, const Options& options) {
  return [target, options](const ir::Program& program,
                           const std::vector<ir::KernelId>& ids) -> Result<runtime::ObtainedKernels> {
    runtime::KernelCounts counts;
    const ir::Deadline deadline(options);
    FUSEC_ASSIGN(runtime::Artifacts artifacts, emit_kernels(program, ids, target, options, counts, deadline));
    return runtime::ObtainedKernels{std::move(artifacts), counts.compiled};
  };
}

}  // namespace

compiler::CandidateLimits runtime::limits_of(const compiler::TuningData& tuning, Listing listing) {
  compiler::CandidateLimits limits;
  if (listing == Listing::all) {
    limits.is_measured = [](const ir::Kernel&) { return true; };
  } else if (!tuning.empty()) {
    limits.is_measured = [&tuning](const ir::Kernel& first) {
      return tuning.candidates.contains(compiler::kernel_key(first));
    };
  }
  return limits;
}

Result<runtime::Stages> runtime::run_stages(const ir::Graph& imported, const Target& target, const Options& options,
                                            Stage last, const ir::Deadline& deadline,
                                            const compiler::TuningData& tuning, Listing listing) {
  Stages s;
  s.graph = imported;
  FUSEC_TRY(ir::dump(options.dump_dir, "import.fir", [&] { return ir::print(s.graph); }));
  if (last == Stage::import) return s;
  FUSEC_TRY(timed_stage(s.times, "optimize", [&] {
    return compiler::optimize(s.graph, target, options, &s.passes, &s.weights_ms, deadline);
  }));
  s.times.back().ms -= s.weights_ms;
  FUSEC_TRY(ir::dump(options.dump_dir, "optimize.fir", [&] { return ir::print(s.graph); }));
  if (last == Stage::optimize) return s;
  FUSEC_TRY(deadline.check("partition"));
  FUSEC_ASSIGN(s.partition,
               timed_stage(s.times, "partition", [&] { return compiler::partition(s.graph, target, options); }));
  FUSEC_TRY(ir::dump(options.dump_dir, "partition.txt", [&] { return compiler::to_string(s.graph, s.partition); }));
  if (last == Stage::partition) return s;
  FUSEC_ASSIGN(s.program, timed_stage(s.times, "lower", [&] {
                 return compiler::lower(s.graph, s.partition, target, options, deadline, limits_of(tuning, listing));
               }));
  FUSEC_TRY(ir::dump(options.dump_dir, "lower.fir", [&] { return ir::print(s.program); }));
  if (last == Stage::lower) return s;
  FUSEC_TRY(timed_stage(s.times, "select", [&] { return compiler::select(s.program, target, tuning); }));
  FUSEC_TRY(ir::dump(options.dump_dir, "select.fir", [&] { return ir::print(s.program); }));
  return s;
}

Result<runtime::Parts> runtime::compile_parts(const Model& model, const Options& options, const Target& wanted,
                                              KernelSet kernels, const Machine* machine, KernelShard* shard) {
  if (!model.graph) return Status(StatusCode::invalid_argument, "the Model holds no graph");
  const Target target = codegen::writable_target(wanted, options.codegen);
  // One by one: GCC 12 destroys members twice where a later one of a braced list throws.
  Parts parts;
  parts.options = options;
  parts.inputs = model.inputs;
  EngineStats& stats = parts.stats;
  const ir::Deadline deadline(options);
  const bool profiles = machine != nullptr && strategy_of(options) == Strategy::profile;
  const Listing listing = profiles ? Listing::all : Listing::needed;
  compiler::TuningData tuning = machine == nullptr ? compiler::TuningData() : read_kernel_times(options, *machine);
  std::vector<Tensor> weights;  // those that stay replaceable
  ir::Graph opened;
  if (!options.replaceable_weights.empty()) {
    FUSEC_ASSIGN(opened, open_weights(*model.graph, options.replaceable_weights, weights));
  }
  const ir::Graph& graph = weights.empty() ? *model.graph : opened;
  FUSEC_ASSIGN(Stages stages, run_stages(graph, target, options, Stage::select, deadline, tuning, listing));
  if (!weights.empty()) close_weights(stages.program, std::move(weights));
  if (profiles) FUSEC_TRY(profile_kernels(stages.program, options, *machine));
  parts.program = std::move(stages.program);
  if (machine != nullptr && options.specialize != Specialize::off && !parts.program.symbols.empty()) {
    parts.specialize = specialize_from(
        parts.program, {std::move(stages.graph), std::move(stages.partition), std::move(tuning), target, options});
  }
  stats.stages = std::move(stages.times);
  stats.weights_ms = stages.weights_ms;
  FUSEC_TRY(check_libraries(parts.program, target, options));
  FUSEC_TRY(dump_code(parts.program, target, options));
  KernelCounts counts;
  const bool all = kernels == KernelSet::picked;
  std::vector<ir::KernelId> ids = all ? picked_kernels(parts.program) : usual_kernels(parts.program);
  if (shard != nullptr) shard->elsewhere += leave_to_others(ids, parts.program, target, options, shard->shard);
  FUSEC_ASSIGN(parts.artifacts, timed_stage(stats.stages, "emit", [&] {
                 return emit_kernels(parts.program, ids, target, options, counts, deadline);
               }));
  if (!all) parts.obtain = obtain_later(target, options);
  stats.distinct_kernels = counts.distinct;
  stats.compiled_kernels = counts.compiled;
  stats.kernels = std::move(counts.times);
  stats.cached_kernels = counts.cached;
  stats.shared_kernels = counts.shared;
  stats.server_kernels = counts.server;
  stats.damaged_entries = counts.damaged;
  return parts;
}

namespace {

Result<Engine> compile_on(const Model& model, const Options& options, const runtime::Machine& machine,
                          double device_ms) {
  const Clock::time_point start = Clock::now();
  FUSEC_ASSIGN(runtime::Parts parts,
               runtime::compile_parts(model, options, machine.target, runtime::KernelSet::usual, &machine));
  parts.machine = machine;
  FUSEC_ASSIGN(std::shared_ptr<runtime::EngineState> state, runtime::assemble(std::move(parts)));
  EngineStats& stats = state->stats;
  stats.compile_ms = milliseconds_since(start) - stats.device_ms - stats.weights_ms;
  stats.device_ms += device_ms;
  for (const StageTime& stage : stats.stages)
    runtime::log(options, Severity::debug, [&] { return fmt::format("{} took {:.1f} ms", stage.stage, stage.ms); });
  runtime::log(options, Severity::info, [&] {
    return fmt::format("compiled for {} ({}) in {:.0f} ms: {} kernels, {} of them found", to_string(machine.device),
                       machine.target.name, stats.compile_ms, stats.distinct_kernels, stats.cached_kernels);
  });
  return Engine(std::shared_ptr<const runtime::EngineState>(std::move(state)));
}

}  // namespace

Result<Engine> runtime::compile_for(const Model& model, const Options& options, const Target& target) {
  return compile_on(model, options, {Device{}, target, nullptr}, 0);
}

Result<Engine> Engine::compile(const Model& model, const Options& options) noexcept {
  return ir::guarded([&]() -> Result<Engine> {
    const Clock::time_point start = Clock::now();
    FUSEC_ASSIGN(const runtime::Machine machine, runtime::open_machine(options));
    const double device_ms = machine.device.kind == TargetKind::cuda ? milliseconds_since(start) : 0;
    return compile_on(model, options, machine, device_ms);
  });
}

}  // namespace fusec

// SPDX-License-Identifier: Apache-2.0
// Implements bind: resolves the Program for the symbol values, binds the library steps (on a GPU several at once),
// plans the arena, and turns every view into an address and every phase into a thread count. Facts that kernels were
// compiled for (divisibility, 32-bit indices) are checked here; a run does not check them again.

#include "runtime/plan/bind.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

#include "ir/support/check.h"
#include "ir/support/parallel.h"
#include "ir/support/stage_context.h"
#include "runtime/cache/artifact.h"
#include "runtime/plan/memory_plan.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/tuner.h"
#include "runtime/threads/parallel.h"
#include "runtime/tuning/tuning.h"

namespace fusec::runtime {
namespace {

// Work below this many bytes runs on the calling thread alone, and no thread gets less than half of it: waking a team
// costs a few microseconds, in which one core moves about this much.
constexpr int64_t kBytesWorthThreads = 64 << 10;
constexpr double kOpsPerByte = 4;  // that one core computes while it moves a byte

constexpr int64_t kGpuAlignment = 256;  // of workspaces and temporaries, as cuBLASLt and cuDNN like it

// Binds the library's own algorithm or, if `reproducible`, its first algorithm that gives the same bits on every run.
Result<std::unique_ptr<LibraryOp>> bind_with(Library& library, LibraryCall call, bool reproducible) {
  if (!reproducible) return library.bind(call);
  const std::vector<Algorithm> algorithms = library.algorithms(call);
  const auto it =
      std::find_if(algorithms.begin(), algorithms.end(), [](const Algorithm& c) { return c.deterministic; });
  if (it == algorithms.end() && !algorithms.empty())
    return Status(StatusCode::unsupported, "no reproducible algorithm");
  if (it != algorithms.begin()) call.algorithm = it->id;
  return library.bind(call);
}

// Binds the fastest algorithm in the tuning database that a library still offers. Null: the libraries decide.
std::unique_ptr<LibraryOp> bind_tuned(const LoadedProgram& loaded, const LibraryCall& call, Tuning& tuning) {
  if (!is_tuned(*call.step) || !tuning.has_picks()) return nullptr;
  const std::string key = tuning_call(call);
  for (const TuningPick& pick : tuning.picks(key)) {
    for (const std::shared_ptr<Library>& library : loaded.libraries) {
      if (library->name() != pick.library || library->get_unsupported_reason(*call.step)) continue;
      LibraryCall chosen = call;
      chosen.algorithm = pick.algorithm;
      auto op = library->bind(chosen);
      if (op.ok()) return std::move(op).value();
    }
    tuning.note_vanished(key, pick);
  }
  return nullptr;
}

Result<std::unique_ptr<LibraryOp>> bind_library(const LoadedProgram& loaded, const LibraryCall& call,
                                                const ResolvedStep& step, bool reproducible) {
  std::string reasons = loaded.libraries.empty() ? "; none was found, or their use is off" : "";
  for (const std::shared_ptr<Library>& library : loaded.libraries) {
    std::optional<std::string> reason = library->get_unsupported_reason(*call.step);
    if (!reason) {
      auto op = bind_with(*library, call, reproducible);
      if (op.ok() || op.status().code() != StatusCode::unsupported) return op;
      reason = op.status().message();
    }
    reasons += "; " + library->name() + ": " + *reason;
  }
  return Status(StatusCode::unsupported, "no library runs step '" + step.step->origin + "'" + reasons);
}

struct BoundLibraryStep {
  Result<std::unique_ptr<LibraryOp>> op = std::unique_ptr<LibraryOp>();
  bool tuned = false;
};

BoundLibraryStep bind_step(const LoadedProgram& loaded, const ResolvedStep& step, int threads, Tuning* tuning,
                           bool warm_constants) {
  const bool reproducible = tuning != nullptr && tuning->strategy() == Strategy::reproducible;
  LibraryCall call = library_call(loaded, step, threads);
  call.warm_constants = warm_constants;
  if (tuning != nullptr) {
    if (auto op = bind_tuned(loaded, call, *tuning)) return {std::move(op), true};
  }
  return {bind_library(loaded, call, step, reproducible), false};
}

// cuDNN needs milliseconds to make a plan, and up to seconds if it compiles one, so a GPU's steps are bound in
// parallel. Host libraries use all threads to pack each constant, so a host's steps are bound one by one.
int binders(const LoadedProgram& loaded, std::size_t steps) {
  if (loaded.device == nullptr) return 1;
  constexpr std::size_t kMax = 8;
  return static_cast<int>(std::min({kMax, std::size_t{std::max(1U, std::thread::hardware_concurrency())}, steps}));
}

Result<LibraryOps> bind_libraries(const LoadedProgram& loaded, const ResolvedProgram& resolved, int threads,
                                  Tuning* tuning, int64_t& tuned) {
  const ThreadCount as_at_run(threads);
  if (tuning != nullptr && tuning->strategy() == Strategy::profile)
    FUSEC_TRY(profile(loaded, resolved, threads, *tuning));
  std::vector<std::size_t> at;
  for (std::size_t i = 0; i < resolved.steps.size(); ++i) {
    if (std::holds_alternative<ir::LibraryStep>(resolved.steps[i].step->v)) at.push_back(i);
  }
  std::vector<BoundLibraryStep> bound(at.size());
  const ir::Deadline told = tuning != nullptr ? ir::Deadline::progress_alone(tuning->options()) : ir::Deadline();
  const bool warm = tuning != nullptr && keeps_constants_cached(loaded.program, resolved, *tuning);
  ir::for_each_parallel(binders(loaded, at.size()), static_cast<int64_t>(at.size()), [&](int64_t i) {
    const auto n = static_cast<std::size_t>(i);
    if (Status go = told.check("bind", static_cast<double>(i) / static_cast<double>(at.size())); !go.ok()) {
      bound[n].op = std::move(go);
      return;
    }
    const auto entered = loaded.device == nullptr ? Result<std::shared_ptr<void>>(nullptr) : loaded.device->enter();
    if (entered.ok())
      bound[n] = bind_step(loaded, resolved.steps[at[n]], threads, tuning, warm);
    else
      bound[n].op = entered.status();
  });
  LibraryOps ops(resolved.steps.size());
  for (std::size_t n = 0; n < at.size(); ++n) {
    BoundLibraryStep& b = bound[n];
    if (!b.op.ok()) return b.op.status().with_note("while binding step '" + resolved.steps[at[n]].step->origin + "'");
    ops[at[n]] = std::move(b.op).value();
    tuned += b.tuned;
  }
  return ops;
}

// The bytes of the elements that a view touches. Broadcast axes count once.
int64_t count_bytes(const ResolvedView& view) {
  if (view.empty()) return 0;
  double elements = 1;  // a sum of these is a statistic; it may pass 63 bits for repeated reads
  for (std::size_t i = 0; i < view.shape.size(); ++i) {
    if (view.strides[i] != 0) elements *= static_cast<double>(view.shape[i]);
  }
  return static_cast<int64_t>(std::min(elements * static_cast<double>(size_of(view.dtype)), 1e15));
}

int64_t count_bytes(const ResolvedStep& step) {
  return std::accumulate(step.args.begin(), step.args.end(), int64_t{0},
                         [](int64_t sum, const ResolvedView& v) { return sum + count_bytes(v); });
}

// The multiplications and additions of a convolution, matmul or attention; 0 for other ops.
double arithmetic(const ir::LibraryStep& step, const std::vector<BoundArg>& args) {
  const auto elements = [](const BoundArg& arg) {
    return std::accumulate(arg.shape.begin(), arg.shape.end(), 1.0,
                           [](double n, int64_t extent) { return n * static_cast<double>(extent); });
  };
  double terms = 0;  // of each element of the output
  if (step.op == ir::TensorOp::matmul) terms = args[0].shape.empty() ? 1 : static_cast<double>(args[0].shape.back());
  if (step.op == ir::TensorOp::conv)
    terms = elements(args[1]) / static_cast<double>(std::max<int64_t>(args[1].shape[0], 1));
  if (step.op == ir::TensorOp::attention) terms = 2 * static_cast<double>(args[1].shape[2]);
  return 2 * terms * elements(args.back());
}

bool has_clamped_load(const ir::Kernel& kernel) {
  bool found = false;
  ir::for_each_stmt(kernel.body, [&](const ir::Stmt& stmt) {
    const auto* load = std::get_if<ir::Load>(&stmt.v);
    found |= load != nullptr && load->clamp != 0;
  });
  return found;
}

// Builds one Plan.
class Binder {
 public:
  Binder(Plan& plan, const ResolvedProgram& resolved, const ArenaLayout& layout)
      : plan_(plan), program_(plan.loaded->program), resolved_(resolved), layout_(layout) {}

  void run() {
    describe_io();
    for (std::size_t i = 0; i < resolved_.steps.size(); ++i) add_launch(i);
    add_copies();
    for (std::size_t i = 0; i < resolved_.steps.size(); ++i) find_in_place(static_cast<int>(i));
  }

 private:
  BoundIo describe(const std::string& name, const ir::Type& type, ir::AllocId id) const {
    BoundIo io{name, type.dtype, evaluate(type.shape, plan_.bindings)};
    io.alignment = static_cast<int64_t>(size_of(type.dtype));
    const int64_t elements = evaluate(program_.allocs[id].elements, plan_.bindings);
    FUSEC_CHECK(std::accumulate(io.shape.begin(), io.shape.end(), int64_t{1}, std::multiplies<>()) == elements)
        << "the allocation of '" << name << "' has " << elements << " elements";
    return io;
  }

  void describe_io() {
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      plan_.inputs.push_back(describe(program_.input_names[i], program_.input_types[i], program_.inputs[i]));
    }
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      plan_.outputs.push_back(describe(program_.output_names[i], program_.output_types[i], program_.outputs[i]));
    }
  }

  Address address(ir::AllocId id, int64_t offset) const {
    const ir::Allocation& alloc = program_.allocs[id];
    switch (alloc.kind) {
      case ir::AllocKind::input:
        return {Base::input, alloc.ordinal, offset};
      case ir::AllocKind::output:
        return {Base::output, alloc.ordinal, offset};
      case ir::AllocKind::constant:
        return {Base::constant, alloc.ordinal, offset};
      case ir::AllocKind::temporary:
        break;
    }
    if (resolved_.kept[id.index]) return {Base::kept, 0, layout_.kept_offset[id.index] + offset};
    return {Base::arena, 0, std::max<int64_t>(layout_.alloc_offset[id.index], 0) + offset};
  }

  BoundIo* find_io(const Address& address) {
    if (address.base == Base::input) return &plan_.inputs[address.ordinal];
    if (address.base == Base::output) return &plan_.outputs[address.ordinal];
    return nullptr;
  }

  void add_launch(std::size_t i) {
    const ResolvedStep& step = resolved_.steps[i];
    Launch launch;
    launch.step = step.step;
    launch.first_arg = static_cast<uint32_t>(plan_.args.size());
    launch.args = static_cast<uint32_t>(step.args.size());
    for (std::size_t a = 0; a < step.args.size(); ++a) add_arg(static_cast<int>(i), step, a);
    if (const auto* kernel_step = std::get_if<ir::KernelStep>(&step.step->v)) {
      add_kernel(launch, *kernel_step, step);
      plan_.generated += i >= resolved_.once;
    } else {
      launch.op = plan_.ops[i].get();
      launch.threads = library_call(*plan_.loaded, step, plan_.threads).threads;
      plan_.team = std::max(plan_.team, launch.threads);
      launch.workspace = layout_.workspace_offset[i];
      plan_.library += i >= resolved_.once;
    }
    launch.bytes = count_bytes(step);
    plan_.launches.push_back(launch);
  }

  // The alignment that the step's code relies on for this argument's first element.
  int64_t required_alignment(std::size_t at, const ResolvedStep& step, std::size_t arg) const {
    const auto element = static_cast<int64_t>(size_of(step.args[arg].dtype));
    const auto* launch = std::get_if<ir::KernelStep>(&step.step->v);
    if (launch == nullptr) return std::max(element, plan_.ops[at]->alignment(arg));
    const ir::Kernel& kernel = program_.kernels[launch->kernel];
    if (arg >= kernel.params.size()) return kAlignment;  // scratch
    return std::max<int64_t>(element, kernel.buffers[kernel.params[arg]].alignment);
  }

  void add_arg(int at, const ResolvedStep& step, std::size_t arg) {
    const ResolvedView& view = step.args[arg];
    const Address to = address(view.alloc, view.offset);
    plan_.args.push_back(to);
    const int64_t alignment = required_alignment(static_cast<std::size_t>(at), step, arg);
    FUSEC_CHECK(alignment <= kAlignment && (view.empty() || to.bytes % alignment == 0))
        << "argument " << arg << " of step '" << step.step->origin << "' lies at byte " << to.bytes
        << ", its kernel needs "
        << "alignment " << alignment;
    if (BoundIo* io = find_io(to)) {
      io->alignment = std::max(io->alignment, alignment);
      io->first = std::min(io->first, at);
      io->last = std::max(io->last, at);
    }
  }

  void add_kernel(Launch& launch, const ir::KernelStep& kernel_step, const ResolvedStep& step) {
    const ir::Kernel& kernel = program_.kernels[kernel_step.kernel];
    launch.kernel = &plan_.loaded->kernel(kernel_step.kernel);
    launch.checks_status = has_clamped_load(kernel);
    launch.first_extent = static_cast<uint32_t>(plan_.extents.size());
    plan_.extents.insert(plan_.extents.end(), step.extents.begin(), step.extents.end());
    const Bindings extents = kernel_extents(kernel, step);
    check_facts(kernel, step, extents);
    plan_.local_bytes = std::max(plan_.local_bytes, evaluate(launch.kernel->local_bytes, extents));
    launch.first_phase = static_cast<uint32_t>(plan_.phases.size());
    for (const LoadedKernel::Phase& phase : launch.kernel->phases) {
      const int64_t iterations = evaluate(phase.iterations, extents);
      const int threads =
          phase.device_function != nullptr ? phase.threads : threads_for(count_bytes(step), iterations, plan_.threads);
      if (phase.device_function == nullptr) plan_.team = std::max(plan_.team, threads);
      plan_.phases.push_back({phase.function, iterations, threads, phase.device_function,
                              static_cast<uint32_t>(phase.dynamic_shared), phase.waits});
    }
    launch.phases = static_cast<uint32_t>(plan_.phases.size()) - launch.first_phase;
  }

  static Bindings kernel_extents(const ir::Kernel& kernel, const ResolvedStep& step) {
    FUSEC_CHECK(kernel.extents.size() == step.extents.size())
        << "step '" << step.step->origin << "' gives " << step.extents.size() << " extents to kernel " << kernel.name
        << ", which has " << kernel.extents.size();
    Bindings extents;
    for (uint32_t i = 0; i < step.extents.size(); ++i) extents[kernel.extents[ir::ExtentId{i}]] = step.extents[i];
    return extents;
  }

  // If a fact that a kernel was compiled for does not hold, its results are wrong.
  static void check_facts(const ir::Kernel& kernel, const ResolvedStep& step, const Bindings& extents) {
    for (const auto& [id, divisor] : kernel.divisible) {
      const std::string& extent = kernel.extents[id];
      FUSEC_CHECK(extents.at(extent) % divisor == 0)
          << "step '" << step.step->origin << "' needs " << extent << " % " << divisor << " == 0";
    }
    if (!kernel.fits32) return;
    for (const ResolvedView& view : step.args) {
      double reach = 0;
      for (std::size_t i = 0; i < view.shape.size(); ++i) {
        reach += static_cast<double>(view.shape[i] - 1) * static_cast<double>(std::abs(view.strides[i]));
      }
      FUSEC_CHECK(view.empty() || reach < 2147483648.0) << "step '" << step.step->origin << "' passes 32-bit indices";
    }
  }

  // An output that lies in another allocation (a model input, a constant, another output) is copied at the end of a
  // run.
  void add_copies() {
    for (uint32_t i = 0; i < program_.outputs.size(); ++i) {
      const ir::Allocation& alloc = program_.allocs[program_.outputs[i]];
      if (alloc.kind == ir::AllocKind::output && alloc.ordinal == i) continue;
      FUSEC_CHECK(alloc.kind != ir::AllocKind::temporary) << "output " << i << " of the Program is a temporary";
      plan_.copies.push_back({address(program_.outputs[i], 0), i, resolved_.alloc_bytes[program_.outputs[i].index]});
      const int end = static_cast<int>(resolved_.steps.size());
      plan_.outputs[i].first = plan_.outputs[i].last = end;
      if (BoundIo* io = find_io(plan_.copies.back().from)) io->last = end;
    }
  }

  void find_in_place(int at) {
    const ResolvedStep& step = resolved_.steps[static_cast<std::size_t>(at)];
    for (AliasPair pair : alias_pairs(program_, step, plan_.ops[static_cast<std::size_t>(at)].get())) {
      const ResolvedView& in = step.args[static_cast<std::size_t>(pair.in)];
      const ResolvedView& out = step.args[static_cast<std::size_t>(pair.out)];
      const ir::Allocation &from = program_.allocs[in.alloc], &to = program_.allocs[out.alloc];
      if (from.kind != ir::AllocKind::input || to.kind != ir::AllocKind::output || !same_window(step, in, out))
        continue;
      if (plan_.inputs[from.ordinal].last != at || plan_.outputs[to.ordinal].first != at) continue;
      plan_.in_place.push_back({from.ordinal, to.ordinal});
    }
  }

  Plan& plan_;
  const ir::Program& program_;
  const ResolvedProgram& resolved_;
  const ArenaLayout& layout_;
};

// Launches use a one-dimensional grid, whose size the driver limits.
Status check_grids(const Plan& plan) {
  constexpr int64_t kMaxBlocks = INT32_MAX;
  for (const Launch& launch : plan.launches) {
    for (uint32_t p = launch.first_phase; p < launch.first_phase + launch.phases; ++p) {
      if (plan.phases[p].iterations <= kMaxBlocks) continue;
      return Status(StatusCode::unsupported, "step '" + launch.step->origin + "' needs " +
                                                 std::to_string(plan.phases[p].iterations) +
                                                 " blocks, a GPU launches " + std::to_string(kMaxBlocks) + " at most");
    }
  }
  return {};
}

// Kernels that link left out are there afterwards. Answers how many had to be compiled.
Result<int64_t> load_later(const LoadedProgram& loaded, const ResolvedProgram& resolved) {
  if (!loaded.later) return 0;
  std::set<ir::KernelId> used;
  for (const ResolvedStep& step : resolved.steps)
    if (const auto* launch = std::get_if<ir::KernelStep>(&step.step->v)) used.insert(launch->kernel);
  return loaded.later->load(loaded.program, used);
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int threads_for(int64_t bytes, int64_t iterations, int threads) {
  if (bytes < kBytesWorthThreads) return 1;
  return static_cast<int>(std::min({int64_t{threads}, iterations, bytes / (kBytesWorthThreads / 2)}));
}

LibraryCall library_call(const LoadedProgram& loaded, const ResolvedStep& step, int threads) {
  LibraryCall call{&std::get<ir::LibraryStep>(step.step->v), {}, threads};
  for (const ResolvedView& view : step.args) {
    BoundArg arg{view.dtype, view.shape, view.strides, nullptr, view.offset};
    const ir::Allocation& alloc = loaded.program.allocs[view.alloc];
    if (alloc.kind == ir::AllocKind::constant) {
      arg.constant = static_cast<const std::byte*>(loaded.program.constants[alloc.ordinal].data()) + view.offset;
    }
    call.args.push_back(std::move(arg));
  }
  if (loaded.device == nullptr) {
    const double work = static_cast<double>(count_bytes(step)) + arithmetic(*call.step, call.args) / kOpsPerByte;
    call.threads = threads_for(static_cast<int64_t>(std::min(work, 1e15)), threads, threads);
  }
  return call;
}

namespace {

// All but the library calls, which it has, and the number of threads.
Status bind_rest(Plan& plan, const ResolvedProgram& resolved) {
  const ir::Program& program = plan.loaded->program;
  const DeviceProgram* const gpu = plan.loaded->device.get();
  const ArenaLayout layout = plan_arena(program, resolved, plan.ops, gpu != nullptr ? kGpuAlignment : kAlignment);
  plan.arena_bytes = layout.arena_bytes;
  plan.kept_bytes = layout.kept_bytes;
  plan.once = resolved.once;
  plan.live_lower_bound_bytes = live_lower_bound_bytes(program, resolved, [&](std::size_t i) {
    return LibraryFacts{static_cast<int64_t>(plan.ops[i]->workspace_bytes()), plan.ops[i]->may_alias()};
  });
  Binder(plan, resolved, layout).run();
  if (gpu == nullptr) group_independent(plan, resolved);
  return gpu != nullptr ? check_grids(plan) : Status();
}

Status passes_63_bits() {
  return Status(StatusCode::out_of_memory, "a buffer for these shapes passes 63 bits of bytes");
}

bool is_library(const ResolvedStep& step) { return std::holds_alternative<ir::LibraryStep>(step.step->v); }

// Whether the library calls of `a`, which stand at the same places, are those of `b`.
bool has_same_calls(const ResolvedProgram& a, const ResolvedProgram& b) {
  return a.once == b.once && std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(),
                                        [](const ResolvedStep& one, const ResolvedStep& other) {
                                          if (is_library(one) != is_library(other)) return false;
                                          return !is_library(one) || one.args == other.args;
                                        });
}

}  // namespace

Result<std::shared_ptr<const Plan>> bind(std::shared_ptr<const LoadedProgram> loaded, const Bindings& bindings,
                                         int threads, Tuning* tuning) try {
  const auto start = std::chrono::steady_clock::now();
  auto plan = std::make_shared<Plan>();
  plan->loaded = std::move(loaded);
  plan->bindings = bindings;
  plan->threads = std::max(threads, 1);
  std::optional<Lease> team;
  if (plan->loaded->device == nullptr) {
    team.emplace(plan->threads);
    plan->threads = team->threads();
  }
  const DeviceProgram* const gpu = plan->loaded->device.get();
  std::shared_ptr<void> entered;
  if (gpu != nullptr) {
    FUSEC_ASSIGN(entered, gpu->enter());
  }
  FUSEC_ASSIGN(const ResolvedProgram resolved, resolve(plan->loaded->program, bindings));
  FUSEC_ASSIGN(plan->compiled, load_later(*plan->loaded, resolved));
  FUSEC_ASSIGN(plan->ops, bind_libraries(*plan->loaded, resolved, plan->threads, tuning, plan->tuned));
  FUSEC_TRY(bind_rest(*plan, resolved));
  plan->bind_ms = milliseconds_since(start);
  if (tuning != nullptr) {
    log(tuning->options(), Severity::debug, [&] {
      std::string text = "bound";
      for (const auto& [name, value] : bindings) text += " " + name + "=" + std::to_string(value);
      return text + " in " + std::to_string(static_cast<int64_t>(plan->bind_ms)) + " ms";
    });
  }
  return std::shared_ptr<const Plan>(std::move(plan));
} catch (const DimOverflow&) {
  return passes_63_bits();
}

// It takes no lease on threads, which runs may hold.
Result<PlanPtr> bind_specialized(std::shared_ptr<const LoadedProgram> loaded, const Plan& generic) try {
  const auto start = std::chrono::steady_clock::now();
  auto plan = std::make_shared<Plan>();
  plan->loaded = std::move(loaded);
  plan->bindings = generic.bindings;
  plan->threads = generic.threads;
  plan->ops = generic.ops;
  plan->tuned = generic.tuned;
  FUSEC_ASSIGN(const ResolvedProgram before, resolve(generic.loaded->program, generic.bindings));
  FUSEC_ASSIGN(const ResolvedProgram resolved, resolve(plan->loaded->program, generic.bindings));
  if (!has_same_calls(resolved, before))
    return Status(StatusCode::internal, "the steps for these shapes are not those for all shapes");
  plan->keeps_alike = resolved.kept == before.kept && resolved.alloc_bytes == before.alloc_bytes;
  FUSEC_TRY(bind_rest(*plan, resolved));
  plan->bind_ms = milliseconds_since(start);
  return PlanPtr(std::move(plan));
} catch (const DimOverflow&) {
  return passes_63_bits();
}

}  // namespace fusec::runtime

// SPDX-License-Identifier: Apache-2.0
// Implements the plan cache of an Engine, which calls bind when it holds no Plan for a set of shapes and a thread
// count, and the public accessors of Engine. Threads that need the same Plan wait for the one that binds it.

#include "runtime/plan/state.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ir/cost/cost.h"
#include "ir/support/check.h"
#include "runtime/threads/parallel.h"

namespace fusec::runtime {

PlanPtr PlanCache::find(const Bindings& bindings, int threads) {
  const std::lock_guard lock(mutex_);
  auto it = std::find_if(plans_.begin(), plans_.end(),
                         [&](const PlanPtr& p) { return p->bindings == bindings && p->threads == threads; });
  if (it == plans_.end()) return nullptr;
  plans_.splice(plans_.begin(), plans_, it);
  return plans_.front();
}

void PlanCache::insert(PlanPtr plan) {
  const std::lock_guard lock(mutex_);
  plans_.push_front(std::move(plan));
  while (plans_.size() > capacity_) plans_.pop_back();
}

void PlanCache::replace(const PlanPtr& plan, const PlanPtr& successor) {
  const std::lock_guard lock(mutex_);
  std::replace(plans_.begin(), plans_.end(), plan, successor);
}

std::size_t PlanCache::size() const {
  const std::lock_guard lock(mutex_);
  return plans_.size();
}

Result<PlanPtr> PlanCache::get(const std::shared_ptr<const LoadedProgram>& loaded, const Bindings& bindings,
                               int threads, Tuning* tuning, const Specialize& specialize) {
  if (PlanPtr plan = find(bindings, threads)) return plan;
  std::optional<Lease> team;  // bind takes its threads
  if (loaded->device == nullptr) {
    team.emplace(threads);
    threads = team->threads();
  }
  return in_flight_.run({bindings, threads}, [&]() -> Result<PlanPtr> {
    if (PlanPtr plan = find(bindings, threads)) return plan;  // of fewer threads, or of a flight that landed meanwhile
    FUSEC_ASSIGN(PlanPtr plan, bind(loaded, bindings, threads, tuning));
    if (specialize) plan = specialize(std::move(plan));
    insert(plan);
    return plan;
  });
}

Tuning& EngineState::tuning() const {
  std::call_once(tuning_made_, [this] { tuning_ = std::make_unique<Tuning>(options, target, *loaded, threads); });
  return *tuning_;
}

Result<PlanPtr> EngineState::plan(std::span<const TensorShape> input_shapes, int most_threads) const {
  FUSEC_ASSIGN(const Bindings bindings, bind_symbols(program(), input_shapes));
  return plan(bindings, most_threads);
}

Result<PlanPtr> EngineState::plan(const Bindings& bindings, int most_threads) const {
  const OnHostThreads threads_of_host(device.kind == TargetKind::cpu ? options.host_threads.get() : nullptr);
  const PlanCache::Specialize then = [this](PlanPtr plan) { return specialize(std::move(plan)); };
  return plans.get(loaded, bindings, std::min(threads, most_threads), &tuning(),
                   specializer ? then : PlanCache::Specialize());
}

// What an earlier process has left in the kernel cache is taken at once.
PlanPtr EngineState::specialize(PlanPtr plan) const {
  const bool now = options.specialize == Specialize::now;
  if (PlanPtr made = specializer->make(plan, now ? Effort::all : Effort::cached)) return made;
  if (!now) {
    specializer->make_later(plan,
                            [this](const PlanPtr& generic, const PlanPtr& made) { plans.replace(generic, made); });
  }
  return plan;
}

std::vector<TensorShape> output_shapes(const ir::Program& program, const Bindings& bindings) {
  std::vector<TensorShape> out;
  for (const ir::Type& type : program.output_types) out.push_back(evaluate(type.shape, bindings));
  return out;
}

namespace {

// Measurements put an event before and after each launch of a GPU.
void predict(const Plan& plan, const Launch& launch, const Target& target, ir::Residence residence, LaunchInfo& info) {
  const ir::Kernel& kernel = plan.loaded->program.kernels[std::get<ir::KernelStep>(launch.step->v).kernel];
  const std::span extents(plan.extents.data() + launch.first_extent, kernel.extents.size());
  const ir::KernelCost cost = ir::cost(kernel, target, {extents, residence, ir::Launching::alone});
  info.predicted_us = cost.predicted_us;
  info.bound_us = cost.bound_us;
}

LaunchInfo describe(const Plan& plan, const Launch& launch) {
  LaunchInfo info;
  info.origin = launch.step->origin;
  info.generated = launch.op == nullptr;
  info.bytes = launch.bytes;
  if (info.generated) {
    const auto& step = std::get<ir::KernelStep>(launch.step->v);
    info.implementation = plan.loaded->program.kernels[step.kernel].name;
    info.specialized = plan.loaded->specialized.contains(step.kernel);
    for (uint32_t p = 0; p < launch.phases; ++p)
      info.threads = std::max(info.threads, plan.phases[launch.first_phase + p].threads);
  } else {
    info.implementation = launch.op->implementation();
    info.threads = launch.threads;
  }
  return info;
}

}  // namespace

PlanStats describe(const Plan& plan, const Target& target, ir::Residence residence) {
  PlanStats stats = describe(plan);
  for (std::size_t i = 0; i < stats.steps.size(); ++i)
    if (stats.steps[i].generated && !stats.steps[i].once)
      predict(plan, plan.launches[i], target, residence, stats.steps[i]);
  return stats;
}

PlanStats describe(const Plan& plan) {
  PlanStats stats;
  stats.symbols = plan.bindings;
  stats.generated = plan.generated;
  stats.library = plan.library;
  stats.tuned = plan.tuned;
  stats.compiled_kernels = plan.compiled;
  stats.launches = plan.generated + plan.library;
  stats.once = static_cast<int64_t>(plan.once);
  stats.arena_bytes = plan.arena_bytes;
  stats.kept_bytes = plan.kept_bytes;
  stats.live_lower_bound_bytes = plan.live_lower_bound_bytes;
  stats.bind_ms = plan.bind_ms;
  for (std::size_t i = 0; i < plan.launches.size(); ++i) {
    stats.steps.push_back(describe(plan, plan.launches[i]));
    stats.steps.back().once = i < plan.once;
    if (i >= plan.once) stats.moved_bytes += plan.launches[i].bytes;
    stats.specialized += stats.steps.back().specialized;
  }
  return stats;
}

}  // namespace fusec::runtime

namespace fusec {

const std::vector<TensorInfo>& Engine::inputs() const { return state_->inputs; }
const std::vector<TensorInfo>& Engine::outputs() const { return state_->outputs; }
const std::vector<std::string>& Engine::symbols() const { return state_->program().symbols; }
const Target& Engine::target() const { return state_->target; }
Device Engine::device() const { return state_->device; }
int Engine::threads() const { return state_->threads; }
const EngineStats& Engine::stats() const { return state_->stats; }

Result<std::vector<TensorShape>> Engine::output_shapes(std::span<const TensorShape> input_shapes) const noexcept {
  return ir::guarded([&]() -> Result<std::vector<TensorShape>> {
    FUSEC_ASSIGN(const runtime::Bindings bindings, runtime::bind_symbols(state_->program(), input_shapes));
    return runtime::output_shapes(state_->program(), bindings);
  });
}

void Engine::wait_for_specialized() const noexcept {
  if (state_->specializer) state_->specializer->wait();
}

std::vector<TensorInfo> Engine::weights() const {
  return state_->weights == nullptr ? std::vector<TensorInfo>() : state_->weights->infos();
}

Status Engine::set_weight(const std::string& name, const Tensor& data) noexcept {
  return ir::guarded([&]() -> Status {
    if (state_->weights != nullptr) return state_->weights->set(name, data);
    return Status(StatusCode::invalid_argument,
                  "weight '" + name +
                      "' cannot be replaced: it was folded, packed or shared when the model was "
                      "compiled; compile it with Options::replaceable_weights (--replaceable-weights)");
  });
}

Result<PlanStats> Engine::plan(std::span<const TensorShape> input_shapes) const noexcept {
  return ir::guarded([&]() -> Result<PlanStats> {
    FUSEC_ASSIGN(const runtime::PlanPtr plan, state_->plan(input_shapes));
    return runtime::describe(*plan, state_->target, ir::Residence::near);
  });
}

}  // namespace fusec

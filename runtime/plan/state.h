// SPDX-License-Identifier: Apache-2.0
// EngineState: what an Engine shares: loaded code and a bounded cache of Plans.
#pragma once

#include <climits>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "fusec/engine.h"
#include "ir/cost/cost.h"
#include "runtime/link/link.h"
#include "runtime/plan/bind.h"
#include "runtime/plan/specializer.h"
#include "runtime/plan/weights.h"
#include "runtime/threads/single_flight.h"

namespace fusec::runtime {

// The Plans used last. Thread-safe; a Plan is made by one thread while the others that want it wait. Where fewer
// threads can be had than `threads` asks for, on a CPU, the Plan is for those.
class PlanCache {
 public:
  explicit PlanCache(std::size_t capacity = 16) : capacity_(capacity) {}
  // specialize: called with a Plan that was bound, answers what is kept in its place.
  using Specialize = std::function<PlanPtr(PlanPtr)>;
  Result<PlanPtr> get(const std::shared_ptr<const LoadedProgram>& loaded, const Bindings& bindings, int threads,
                      Tuning* tuning = nullptr, const Specialize& specialize = {});
  // Where `plan` is held, its successor is from here on.
  void replace(const PlanPtr& plan, const PlanPtr& successor);
  std::size_t size() const;

 private:
  PlanPtr find(const Bindings& bindings, int threads);
  void insert(PlanPtr plan);

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::list<PlanPtr> plans_;                                   // last used first
  SingleFlight<std::pair<Bindings, int>, PlanPtr> in_flight_;  // bindings, threads
};

struct EngineState {
  std::shared_ptr<const LoadedProgram> loaded;
  Device device;
  Target target;
  Options options;
  int threads = 1;
  EngineStats stats;
  std::vector<TensorInfo> inputs, outputs;
  mutable PlanCache plans;
  std::unique_ptr<Weights> weights;          // null: none can be replaced, or this was made for replaced ones
  std::unique_ptr<Specializer> specializer;  // null: none is asked for, or there is nothing to do for it

  const ir::Program& program() const { return loaded->program; }
  // For at most `most_threads` of the Engine's threads.
  Result<PlanPtr> plan(std::span<const TensorShape> input_shapes, int most_threads = INT_MAX) const;
  Result<PlanPtr> plan(const Bindings& bindings, int most_threads = INT_MAX) const;
  // Made when it is first asked for.
  Tuning& tuning() const;

 private:
  PlanPtr specialize(PlanPtr plan) const;

  mutable std::once_flag tuning_made_;
  mutable std::unique_ptr<Tuning> tuning_;
};

// Engine::compile on the CPU for a description of it that may differ from what was found, but in features that it
// lacks.
Result<Engine> compile_for(const Model& model, const Options& options, const Target& target);

std::vector<TensorShape> output_shapes(const ir::Program& program, const Bindings& bindings);
// Without predictions.
PlanStats describe(const Plan& plan);
PlanStats describe(const Plan& plan, const Target& target, ir::Residence residence);

}  // namespace fusec::runtime

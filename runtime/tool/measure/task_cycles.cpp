// SPDX-License-Identifier: Apache-2.0
// Measures the core cycles of a pattern's arithmetic without its memory traffic, for `fusec bench --cycles`: it runs
// one task of each phase repeatedly on one thread. The model is compiled for caches that hold everything, so its
// kernels have no prefetch hints or streaming stores.

#include <algorithm>
#include <limits>

#include "runtime/plan/state.h"
#include "runtime/run/executor.h"
#include "runtime/tool/measure/timing.h"

namespace fusec::tool {
namespace {

using runtime::Launch;
using runtime::PhaseLaunch;

constexpr int64_t kHoldsAll = int64_t{1} << 46;
constexpr double kTrialUs = 500;
constexpr int kTrials = 9;

// The minimum over a few trials, because disturbances only make a loop in a first-level cache slower.
double least_us(const Call& call) {
  double us = 0, least = std::numeric_limits<double>::infinity();
  int64_t calls = 1;
  for (; us < kTrialUs && calls < (int64_t{1} << 24); calls *= 2) {
    us = time_us([&] {
      for (int64_t i = 0; i < calls; ++i) call();
    });
  }
  for (int trial = 0; trial < kTrials; ++trial) {
    least = std::min(least, time_us([&] {
                              for (int64_t i = 0; i < calls; ++i) call();
                            }) / static_cast<double>(calls));
  }
  return least;
}

}  // namespace

double core_ghz() {
  constexpr int kSteps = 1'000'000;
  constexpr double kLatency = 3;
  double least = std::numeric_limits<double>::infinity();
  for (int trial = 0; trial < kTrials; ++trial) {
    volatile uint64_t seed = 3;
    least = std::min(least, time_us([&] {
                       uint64_t x = seed;
                       for (int i = 0; i < kSteps; ++i) x *= x;
                       seed = x;
                     }));
  }
  return kLatency * kSteps / (1e3 * least);
}

Result<TaskCycles> task_cycles(const Model& model, const Options& options, Target target,
                               std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  target.l1_bytes = target.l2_bytes = target.last_level_cache = kHoldsAll;
  FUSEC_ASSIGN(const Engine engine, runtime::compile_for(model, options, target));
  std::vector<TensorShape> shapes;
  std::vector<const void*> in;
  std::vector<void*> out;
  int64_t elements = 1;
  for (const Tensor& t : inputs) {
    shapes.push_back(t.shape());
    in.push_back(t.data());
    elements = std::max(elements, t.num_elements());
  }
  for (Tensor& t : outputs) {
    out.push_back(t.data());
    elements = std::max(elements, t.num_elements());
  }
  FUSEC_ASSIGN(const runtime::PlanPtr plan, engine.state()->plan(shapes));
  runtime::RunMemory memory;
  FUSEC_TRY(memory.reserve(*plan).status());
  runtime::Frame frame(plan, memory);
  FUSEC_TRY(frame.run(in, out));
  TaskCycles result;
  double us = 0;
  for (const Launch& launch : plan->launches) {
    int64_t tasks = 1;
    for (uint32_t p = launch.first_phase; p < launch.first_phase + launch.phases; ++p) {
      const PhaseLaunch& phase = plan->phases[p];
      if (phase.iterations == 0) continue;
      tasks = std::max(tasks, phase.iterations);
      us += least_us([&] { frame.run_task(launch, phase, phase.iterations / 2); }) *
            static_cast<double>(phase.iterations);
    }
    if (launch.op == nullptr) result.task_bytes = std::max(result.task_bytes, launch.bytes / tasks);
  }
  result.per_16 = 1e3 * us * core_ghz() * 16 / static_cast<double>(elements);
  return result;
}

}  // namespace fusec::tool

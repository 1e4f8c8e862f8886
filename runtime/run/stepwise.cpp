// SPDX-License-Identifier: Apache-2.0
// Runs a Plan launch by launch.

#include "runtime/run/stepwise.h"

#include "ir/support/check.h"
#include "runtime/plan/state.h"
#include "runtime/run/runner.h"

namespace fusec::runtime {

StepwiseRun::StepwiseRun(Engine engine) : engine_(std::move(engine)) {}
StepwiseRun::StepwiseRun(StepwiseRun&&) noexcept = default;

// The runner waits for work under way before the state that it uses goes.
StepwiseRun::~StepwiseRun() { runner_.reset(); }

Result<StepwiseRun> StepwiseRun::make(const Engine& engine, std::span<const Tensor> inputs) {
  StepwiseRun run(engine);
  std::vector<TensorShape> shapes;
  for (const Tensor& t : inputs) shapes.push_back(t.shape());
  FUSEC_ASSIGN(run.plan_, engine.state()->plan(shapes));
  FUSEC_ASSIGN(run.runner_, make_runner(*engine.state()));
  FUSEC_ASSIGN(run.state_, run.runner_->prepare(run.plan_));
  return run;
}

Result<std::vector<Tensor>> StepwiseRun::run(std::span<const Tensor> inputs,
                                             const std::function<Status(std::size_t, void* const*)>& after) {
  return ir::guarded([&]() -> Result<std::vector<Tensor>> {
    std::vector<Tensor> outputs(engine_.outputs().size());
    FUSEC_TRY(runner_->run_stepwise(*state_, inputs, outputs, after));
    return outputs;
  });
}

}  // namespace fusec::runtime

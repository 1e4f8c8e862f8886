// SPDX-License-Identifier: Apache-2.0
// A run for debugging: launch by launch, with a look at what each has written. It has a Runner of its own, so that
// Sessions know nothing of it and their runs cost what they did.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "fusec/engine.h"
#include "fusec/tensor.h"
#include "runtime/plan/plan.h"

namespace fusec::runtime {

class Runner;
class PlanState;

class StepwiseRun {
 public:
  // The Plan of these shapes, which every Session runs too, without the successor that a specialised one has.
  static Result<StepwiseRun> make(const Engine& engine, std::span<const Tensor> inputs);
  StepwiseRun(StepwiseRun&&) noexcept;
  ~StepwiseRun();

  const Plan& plan() const { return *plan_; }
  // The outputs, on the host if the inputs are there. `after` is called with the index of each launch that is over, and
  // the addresses of its arguments on the device.
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs,
                                  const std::function<Status(std::size_t launch, void* const* args)>& after);

 private:
  explicit StepwiseRun(Engine engine);

  Engine engine_;
  PlanPtr plan_;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<PlanState> state_;
};

}  // namespace fusec::runtime

// SPDX-License-Identifier: Apache-2.0
// A plan on the CPU as one call, for the tuner of generated kernels.

#include <algorithm>
#include <utility>

#include "runtime/run/executor.h"
#include "runtime/run/runner.h"

namespace fusec::runtime {
namespace {

class PlanOp final : public LibraryOp {
 public:
  static Result<std::unique_ptr<LibraryOp>> make(PlanPtr plan) {
    auto op = std::make_unique<PlanOp>();
    FUSEC_TRY(op->memory_.reserve(*plan).status());
    op->inputs_ = plan->inputs.size(), op->outputs_ = plan->outputs.size();
    op->checks_ = std::any_of(plan->launches.begin(), plan->launches.end(),
                              [](const Launch& launch) { return launch.checks_status; });
    op->frame_ = std::make_unique<Frame>(std::move(plan), op->memory_);
    return std::unique_ptr<LibraryOp>(std::move(op));
  }

  Status run(void* const* args, void*, const ExecContext&) const override {
    const void* const* const inputs = args;
    const Status status = frame_->run(std::span(inputs, inputs_), std::span(args + inputs_, outputs_));
    const bool is_index = checks_ && status.code() == StatusCode::invalid_argument;
    return is_index ? Status() : status;
  }
  std::string implementation() const override { return "generated"; }

 private:
  RunMemory memory_;
  std::size_t inputs_ = 0, outputs_ = 0;
  bool checks_ = false;
  std::unique_ptr<Frame> frame_;
};

}  // namespace

Result<std::unique_ptr<LibraryOp>> make_plan_op(PlanPtr plan) { return PlanOp::make(std::move(plan)); }

}  // namespace fusec::runtime

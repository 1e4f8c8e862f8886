// SPDX-License-Identifier: Apache-2.0
// A plan on a GPU as one call, for the tuner of generated kernels: implements `Program::make_plan_op`.

#include <utility>

#include "runtime/run/cuda/frame.h"
#include "runtime/run/cuda/link.h"

namespace fusec::runtime::cuda {
namespace {

class PlanOp final : public LibraryOp {
 public:
  static Result<std::unique_ptr<LibraryOp>> make(const ContextPtr& context, PlanPtr plan) {
    auto op = std::make_unique<PlanOp>();
    const Current current(*context);
    FUSEC_TRY(current.status());
    FUSEC_TRY(op->memory_.reserve(context, *plan).status());
    op->inputs_ = plan->inputs.size(), op->outputs_ = plan->outputs.size();
    DeviceBuffer kept;
    FUSEC_TRY(grow(kept, context, plan->kept_bytes).status());
    FUSEC_ASSIGN(op->frame_, Frame::make(context, std::move(plan), op->memory_, std::move(kept)));
    return std::unique_ptr<LibraryOp>(std::move(op));
  }

  Status run(void* const* args, void*, const ExecContext& context) const override {
    return frame_->enqueue_launches(std::span(args, inputs_), std::span(args + inputs_, outputs_),
                                    static_cast<CUstream>(context.stream));
  }
  std::string implementation() const override { return "generated"; }

 private:
  RunMemory memory_;
  std::size_t inputs_ = 0, outputs_ = 0;
  std::unique_ptr<Frame> frame_;
};

}  // namespace

Result<std::unique_ptr<LibraryOp>> Program::make_plan_op(PlanPtr plan) const {
  return PlanOp::make(context, std::move(plan));
}

}  // namespace fusec::runtime::cuda

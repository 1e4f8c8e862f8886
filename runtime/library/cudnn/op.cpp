// SPDX-License-Identifier: Apache-2.0
// A bound cuDNN call: resolves the pointers of each stage from arguments, workspace and packed weights, and puts the
// plans on the stream in order. A run allocates nothing.

#include <algorithm>
#include <array>
#include <utility>

#include "ir/support/check.h"
#include "runtime/library/cudnn/build.h"

namespace fusec::runtime::cudnn {
namespace {

constexpr std::size_t kMaxPointers = 16;
constexpr std::size_t kDeviceAlignment = 256;

std::size_t aligned_bytes(std::size_t bytes) {
  return (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
}

class CudnnOp : public LibraryOp {
 public:
  explicit CudnnOp(ExecutionPlan execution_plan) : recipe_(std::move(execution_plan)) {}

  Status run(void* const* args, void* workspace, const ExecContext& context) const override {
    // The arena guarantees only 64-byte alignment.
    const auto address = reinterpret_cast<std::uintptr_t>(workspace);
    char* const base = reinterpret_cast<char*>(aligned_bytes(address));
    for (const PlanStep& step : recipe_.steps) {
      std::array<void*, kMaxPointers> pointers{};
      for (std::size_t i = 0; i < step.pointers.size(); ++i) {
        const PlanArg& p = step.pointers[i];
        pointers[i] = p.source == ArgSource::arg     ? args[p.arg]
                      : p.source == ArgSource::fixed ? p.fixed
                                                     : base + p.offset;
      }
      FUSEC_TRY(step.plan->run(pointers.data(), base + recipe_.temporaries, context.stream));
    }
    return {};
  }
  bool next_may_start_early() const override { return true; }
  std::size_t workspace_bytes() const override {
    const std::size_t bytes = recipe_.temporaries + recipe_.scratch;
    return bytes == 0 ? 0 : bytes + kDeviceAlignment;
  }
  std::size_t limited_bytes() const override { return recipe_.scratch; }
  int64_t alignment(std::size_t arg) const override {
    const auto it = recipe_.alignments.find(static_cast<int>(arg));
    return it == recipe_.alignments.end() ? 1 : it->second;
  }
  bool reads(std::size_t arg) const override {
    return std::any_of(recipe_.steps.begin(), recipe_.steps.end(), [&](const PlanStep& step) {
      return std::any_of(step.pointers.begin(), step.pointers.end(), [&](const PlanArg& p) {
        return p.source == ArgSource::arg && p.arg == static_cast<int>(arg);
      });
    });
  }
  std::string implementation() const override { return "cudnn " + recipe_.implementation; }
  std::size_t packed_bytes() const override { return recipe_.packed; }

 private:
  ExecutionPlan recipe_;
};

}  // namespace

PlanArg ExecutionPlan::reserve(const TensorSpec& tensor) {
  const std::size_t bytes = static_cast<std::size_t>(product(tensor.dims)) * size_of(tensor.dtype);
  return {ArgSource::temporary, -1, std::exchange(temporaries, temporaries + aligned_bytes(bytes)), nullptr};
}

void ExecutionPlan::add(std::shared_ptr<const CudnnPlan> plan, std::vector<PlanArg> pointers) {
  FUSEC_CHECK(pointers.size() <= kMaxPointers) << "a plan of " << pointers.size() << " pointers";
  scratch = std::max(scratch, plan->workspace_bytes());
  implementation += (implementation.empty() ? "" : " + ") + plan->name();
  steps.push_back({std::move(plan), std::move(pointers)});
}

void ExecutionPlan::need(const PlanArg& pointer, const TensorSpec& tensor) {
  if (pointer.source != ArgSource::arg) return;
  int64_t& alignment = alignments[pointer.arg];
  alignment = std::max(alignment, tensor.alignment);
}

std::unique_ptr<LibraryOp> make_op(ExecutionPlan execution_plan) {
  return std::make_unique<CudnnOp>(std::move(execution_plan));
}

}  // namespace fusec::runtime::cudnn

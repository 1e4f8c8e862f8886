// SPDX-License-Identifier: Apache-2.0
// The cuDNN library: decides which steps it takes and binds convolutions, attention and poolings to cuDNN plans. It
// never calls cuDNN directly, only through the Backend, so builds without cuDNN's headers and tests can use it.

#include "runtime/library/cudnn/cudnn.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/library/cudnn/build.h"
#if FUSEC_WITH_CUDNN
#include "runtime/library/cudnn/handles.h"
#endif

namespace fusec::runtime {
namespace {

class CudnnLibrary : public Library {
 public:
  CudnnLibrary(const Options& options, std::shared_ptr<DeviceMemory> memory, std::shared_ptr<cudnn::Backend> backend)
      : CudnnLibrary(std::move(memory), std::move(backend), options.tf32, options.numerics == Numerics::exact,
                     static_cast<std::size_t>(std::max<int64_t>(options.workspace_limit, 0)), options.batch_invariant) {
  }
  CudnnLibrary(std::shared_ptr<DeviceMemory> memory, std::shared_ptr<cudnn::Backend> backend, bool tf32, bool exact,
               std::size_t workspace, bool batch_invariant)
      : memory_(std::move(memory)), backend_(std::move(backend)), weights_(memory_), context_{*backend_,      plans_,
                                                                                              weights_,       tf32,
                                                                                              exact,          workspace,
                                                                                              batch_invariant} {}

  std::string name() const override { return std::string(capabilities_.name); }
  std::string version() const override { return backend_->version(); }
  std::shared_ptr<Library> clone(int64_t workspace) const override {
    const std::size_t limit = std::max(context_.workspace_limit, static_cast<std::size_t>(workspace));
    return std::make_shared<CudnnLibrary>(memory_, backend_, context_.tf32, context_.exact, limit,
                                          context_.batch_invariant);
  }

  std::vector<Algorithm> algorithms(const LibraryCall& call) override {
    const Problem problem = normalize(call);
    if (unsupported_problem(problem)) return {};
    if (problem.op == ir::TensorOp::conv) return cudnn::conv_algorithms(context_, problem);
    if (problem.op == ir::TensorOp::attention) return cudnn::attention_algorithms(context_, problem);
    return {};
  }

  std::optional<std::string> get_unsupported_reason(const ir::LibraryStep& step) const override {
    return unsupported_reason(capabilities_, step.op, step.compute);
  }

  Result<std::unique_ptr<LibraryOp>> bind(const LibraryCall& call) override {
    const Problem problem = normalize(call);
    if (auto reason = unsupported_problem(problem)) return Status(StatusCode::unsupported, *reason);
    FUSEC_ASSIGN(cudnn::ExecutionPlan execution_plan, build(problem, call.algorithm));
    return cudnn::make_op(std::move(execution_plan));
  }

 private:
  Result<cudnn::ExecutionPlan> build(const Problem& problem, const std::string& algorithm) const {
    if (problem.op == ir::TensorOp::conv) return cudnn::build_conv(context_, problem, algorithm);
    if (problem.op == ir::TensorOp::attention) return cudnn::build_attention(context_, problem, algorithm);
    return cudnn::build_pool(context_, problem);
  }

  std::optional<std::string> unsupported_problem(const Problem& problem) const {
    for (const BoundEpilogue& epilogue : problem.epilogues) {
      if (!has_epilogue(capabilities_.epilogues, epilogue.op, epilogue.operand.has_value()))
        return "cuDNN has no such epilogue";
    }
    return unsupported_reason(capabilities_, problem);
  }

  const ir::LibraryCapabilities& capabilities_ = ir::library_capabilities("cudnn");
  std::shared_ptr<DeviceMemory> memory_;
  std::shared_ptr<cudnn::Backend> backend_;
  cudnn::GraphPlans plans_;
  DeviceWeights weights_;
  cudnn::BuildContext context_;
};

}  // namespace

std::shared_ptr<Library> make_cudnn_library(const Options& options, std::shared_ptr<DeviceMemory> memory,
                                            std::shared_ptr<cudnn::Backend> backend) {
  return std::make_shared<CudnnLibrary>(options, std::move(memory), std::move(backend));
}

Result<std::shared_ptr<Library>> make_cudnn_library(const Options& options, std::shared_ptr<DeviceMemory> memory) {
#if FUSEC_WITH_CUDNN
  FUSEC_ASSIGN(auto backend, cudnn::open_cudnn(options, memory->device_name()));
  return make_cudnn_library(options, std::move(memory), std::move(backend));
#else
  (void)options, (void)memory;
  return Status(StatusCode::device, "fusec was built without cuDNN's headers");
#endif
}

}  // namespace fusec::runtime

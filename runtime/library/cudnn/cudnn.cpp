// SPDX-License-Identifier: Apache-2.0
// The cuDNN library: decides which steps it takes and binds convolutions and poolings to cuDNN plans. It never calls
// cuDNN directly, only through the Backend, so builds without cuDNN's headers and tests can use it.

#include "runtime/library/cudnn/cudnn.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/library/cudnn/build.h"
#if FUSEC_WITH_CUDNN
#include "runtime/library/cudnn/legacy.h"
#endif

namespace fusec::runtime {
namespace {

bool is_odd_view(const Operand& operand) {
  return std::any_of(operand.strides.begin(), operand.strides.end(), [](int64_t s) { return s < 0; });
}

const char* cudnn_objection(const Problem& p) {
  if (p.out.dims.size() > 5) return "more than three spatial axes";
  if (is_odd_view(p.a) || is_odd_view(p.b) || is_odd_view(p.out)) return "a negative stride";
  bool same = p.a.dtype == p.out.dtype && (p.op != ir::TensorOp::conv || p.b.dtype == p.out.dtype);
  same = same && (!p.bias || p.bias->dtype == p.out.dtype);
  for (const PostOp& post : p.epilogues) same = same && (!post.operand || post.operand->dtype == p.out.dtype);
  return same ? nullptr : "operands of several types";
}

class CudnnLibrary : public Library {
 public:
  CudnnLibrary(const Options& options, std::shared_ptr<DeviceMemory> memory, std::shared_ptr<cudnn::Backend> backend)
      : CudnnLibrary(std::move(memory), std::move(backend), options.tf32, options.numerics == Numerics::exact,
                     static_cast<std::size_t>(std::max<int64_t>(options.workspace_limit, 0))) {}
  CudnnLibrary(std::shared_ptr<DeviceMemory> memory, std::shared_ptr<cudnn::Backend> backend, bool tf32, bool exact,
               std::size_t workspace)
      : memory_(std::move(memory)), backend_(std::move(backend)), weights_(memory_), context_{*backend_, plans_,
                                                                                              weights_,  tf32,
                                                                                              exact,     workspace} {}

  std::string name() const override { return "cudnn"; }
  std::string version() const override { return backend_->version(); }
  std::shared_ptr<Library> fresh() const override {
    return std::make_shared<CudnnLibrary>(memory_, backend_, context_.tf32, context_.exact, context_.workspace_limit);
  }

  std::vector<Choice> choices(const LibraryCall& call) override {
    const Problem problem = normalize(call);
    if (problem.op != ir::TensorOp::conv || cudnn_objection(problem) != nullptr) return {};
    return cudnn::conv_choices(context_, problem);
  }

  std::optional<std::string> refuses(const ir::LibraryStep& step) const override {
    const bool pool = step.op == ir::TensorOp::max_pool || step.op == ir::TensorOp::avg_pool;
    if (!pool && step.op != ir::TensorOp::conv) return "cuDNN is not asked for " + std::string(ir::info(step.op).name);
    if (!is_float(step.compute)) return std::string("no arithmetic in ") + to_string(step.compute);
    return std::nullopt;
  }

  Result<std::unique_ptr<LibraryOp>> bind(const LibraryCall& call) override {
    const Problem problem = normalize(call);
    if (const char* reason = cudnn_objection(problem)) return Status(StatusCode::unsupported, reason);
    const bool conv = problem.op == ir::TensorOp::conv;
    FUSEC_ASSIGN(cudnn::Recipe recipe,
                 conv ? cudnn::build_conv(context_, problem, call.choice) : cudnn::build_pool(context_, problem));
    return cudnn::make_op(std::move(recipe));
  }

 private:
  std::shared_ptr<DeviceMemory> memory_;
  std::shared_ptr<cudnn::Backend> backend_;
  cudnn::ConvPlans plans_;
  DeviceWeights weights_;
  cudnn::Context context_;
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

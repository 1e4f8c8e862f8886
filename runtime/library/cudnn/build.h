// SPDX-License-Identifier: Apache-2.0
// Builds the cuDNN plans for a Problem; `unsupported` means that cuDNN lacks something. Operands are converted to cuDNN
// tensor descriptions. A bound call has its plans in order and the sources of their pointers.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fusec/options.h"
#include "runtime/library/cudnn/spec.h"
#include "runtime/library/interface/device_weights.h"
#include "runtime/library/interface/library.h"
#include "runtime/threads/single_flight.h"

namespace fusec::runtime::cudnn {

// The memory order of an image; `otherwise` if either fits.
ImageOrder infer_order(const CallOperand& image, ImageOrder otherwise);

// cuDNN has no images with one spatial axis; they get a second one of extent 1.
Problem with_two_axes(Problem problem);

// The same elements, with the strides of axes of extent 1 set to those of a dense tensor in this order. cuDNN compares
// these strides.
TensorSpec describe(const CallOperand& operand, ImageOrder order);
// A dense tensor in this order, in separate memory.
TensorSpec dense(const CallOperand& operand, ImageOrder order);

enum class ArgSource { arg, temporary, fixed };

struct PlanArg {
  ArgSource source = ArgSource::arg;
  int arg = -1;            // for ArgSource::arg
  std::size_t offset = 0;  // for ArgSource::temporary, in the workspace
  void* fixed = nullptr;   // for ArgSource::fixed
};

struct PlanStep {
  std::shared_ptr<const CudnnPlan> plan;
  std::vector<PlanArg> pointers;
};

struct ExecutionPlan {
  std::vector<PlanStep> steps;
  std::size_t temporaries = 0, scratch = 0;  // bytes
  std::size_t packed = 0;                    // bytes of weights at fixed pointers
  std::string implementation;

  std::map<int, int64_t> alignments;  // required alignment by argument

  PlanArg reserve(const TensorSpec& tensor);
  void add(std::shared_ptr<const CudnnPlan> plan, std::vector<PlanArg> pointers);
  // Records that the plan relies on the tensor's alignment at this pointer.
  void need(const PlanArg& pointer, const TensorSpec& tensor);
};

std::unique_ptr<LibraryOp> make_op(ExecutionPlan execution_plan);

// The plans of convolutions and attention in use. Equal plans, which are frequent in a network, are built only once.
// Thread-safe.
class GraphPlans {
 public:
  Result<std::shared_ptr<const CudnnPlan>> get(Backend& backend, const ConvSpec& spec);
  Result<std::shared_ptr<const CudnnPlan>> get(Backend& backend, const AttentionSpec& spec);

 private:
  template <class Build>
  Result<std::shared_ptr<const CudnnPlan>> get(const std::string& key, const Build& build);
  std::shared_ptr<const CudnnPlan> find(const std::string& key);

  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const CudnnPlan>> plans_;  // by to_text of the spec
  SingleFlight<std::string, std::shared_ptr<const CudnnPlan>> in_flight_;
};

struct BuildContext {
  Backend& backend;
  GraphPlans& plans;
  DeviceWeights& weights;
  bool tf32 = false, exact = false;  // as in ConvSpec
  std::size_t workspace_limit = 0;
  bool batch_invariant = false;  // one plan serves every batch
};

// The convolution or attention of so many samples that its plan is a good one for every batch, as batch-invariant mode
// needs it. Operands of the output's or the scores' other extents differ between its samples.
Problem of_many_samples(Problem problem);
// In batch-invariant mode: the plan for many samples does not serve this batch. Of a code with which nothing else is
// tried.
Status not_for_this_batch(const std::string& plan, const Status& reason);

// algorithm: an id from conv_algorithms; empty: the first combination for which cuDNN has a plan.
Result<ExecutionPlan> build_conv(const BuildContext& context, const Problem& problem, const std::string& algorithm);
std::vector<Algorithm> conv_algorithms(const BuildContext& context, const Problem& problem);
// algorithm: an id from attention_algorithms; empty: plans by the number of heads, then cuDNN's own choice.
Result<ExecutionPlan> build_attention(const BuildContext& context, const Problem& problem,
                                      const std::string& algorithm);
std::vector<Algorithm> attention_algorithms(const BuildContext& context, const Problem& problem);
Result<ExecutionPlan> build_pool(const BuildContext& context, const Problem& problem);

// Applies the bias, then the epilogues, in place on `out`.
Status add_epilogues(const BuildContext& context, const Problem& problem, ImageOrder order,
                     ExecutionPlan& execution_plan);

}  // namespace fusec::runtime::cudnn

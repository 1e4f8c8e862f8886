// SPDX-License-Identifier: Apache-2.0
// Builds the cuDNN plans for a Problem. `unsupported`: cuDNN lacks something.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "fusec/options.h"
#include "runtime/library/cudnn/describe.h"
#include "runtime/library/cudnn/op.h"
#include "runtime/library/interface/device_weights.h"
#include "runtime/threads/single_flight.h"

namespace fusec::runtime::cudnn {

// The convolution plans in use. Equal plans, which are frequent in a network, are built only once. Thread-safe.
class ConvPlans {
 public:
  Result<std::shared_ptr<const CudnnPlan>> get(Backend& backend, const ConvSpec& spec);

 private:
  std::shared_ptr<const CudnnPlan> find(const std::string& key);

  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const CudnnPlan>> plans_;  // by to_text of the spec
  SingleFlight<std::string, std::shared_ptr<const CudnnPlan>> in_flight_;
};

struct BuildContext {
  Backend& backend;
  ConvPlans& plans;
  DeviceWeights& weights;
  bool tf32 = false, exact = false;  // as in ConvSpec
  std::size_t workspace_limit = 0;
};

// algorithm: an id from conv_algorithms; empty: the first combination for which cuDNN has a plan.
Result<ExecutionPlan> build_conv(const BuildContext& context, const Problem& problem, const std::string& algorithm);
std::vector<Algorithm> conv_algorithms(const BuildContext& context, const Problem& problem);
Result<ExecutionPlan> build_pool(const BuildContext& context, const Problem& problem);

// Applies the bias, then the epilogues, in place on `out`.
Status add_epilogues(const BuildContext& context, const Problem& problem, ImageOrder order,
                     ExecutionPlan& execution_plan);

}  // namespace fusec::runtime::cudnn

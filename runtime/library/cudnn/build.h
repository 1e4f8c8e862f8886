// SPDX-License-Identifier: Apache-2.0
// From a Problem to the plans that solve it. `unsupported`: what cuDNN lacks.
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

// Convolution plans in use: equal ones, of which a network has many, are built once, whoever asks. Thread-safe.
class ConvPlans {
 public:
  Result<std::shared_ptr<const Work>> get(Backend& backend, const ConvSpec& spec);

 private:
  std::shared_ptr<const Work> find(const std::string& key);

  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const Work>> plans_;  // by to_text of the spec
  SingleFlight<std::string, std::shared_ptr<const Work>> flights_;
};

struct Context {
  Backend& backend;
  ConvPlans& plans;
  DeviceWeights& weights;
  bool tf32 = false, exact = false;  // as in ConvSpec
  std::size_t workspace_limit = 0;
};

// choice: an id of conv_choices; empty: the first way that cuDNN has a plan for.
Result<Recipe> build_conv(const Context& context, const Problem& problem, const std::string& choice);
std::vector<Choice> conv_choices(const Context& context, const Problem& problem);
Result<Recipe> build_pool(const Context& context, const Problem& problem);

// Bias, then epilogues, in place on `out`.
Status add_posts(const Context& context, const Problem& problem, Order order, Recipe& recipe);

}  // namespace fusec::runtime::cudnn

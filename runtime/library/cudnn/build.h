// SPDX-License-Identifier: Apache-2.0
// From a Problem to the plans that solve it. `unsupported`: what cuDNN lacks.
#pragma once

#include "fusec/options.h"
#include "runtime/library/cudnn/describe.h"
#include "runtime/library/cudnn/op.h"
#include "runtime/library/device_weights.h"

namespace fusec::runtime::cudnn {

struct Context {
  Backend& backend;
  DeviceWeights& weights;
  bool tf32 = false;
  std::size_t workspace_limit = 0;
};

Result<Recipe> build_conv(const Context& context, const Problem& problem);
Result<Recipe> build_pool(const Context& context, const Problem& problem);

// Bias, then epilogues, in place on `out`.
Status add_posts(const Context& context, const Problem& problem, Order order, Recipe& recipe);

}  // namespace fusec::runtime::cudnn

// SPDX-License-Identifier: Apache-2.0
// Stores convolution plans, as serialized by cuDNN, in the kernel cache. Building a plan queries heuristics and may
// compile kernels; reading a stored one does neither.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "fusec/options.h"
#include "runtime/cache/artifact.h"
#include "runtime/library/cudnn/spec.h"

namespace fusec::runtime::cudnn {

struct StoredPlan {
  std::string name;  // CudnnPlanInfo::name; for a refusal, cuDNN's reason
  std::string text;  // serialized for one version and device; empty: cuDNN has no plan
};

// Thread-safe. If the kernel cache fails, the plan is built.
class CudnnPlanCache {
 public:
  // Null if there is no cache or the device has no name.
  static std::unique_ptr<CudnnPlanCache> open(const Options& options, const std::string& device,
                                              const std::string& version);
  std::optional<StoredPlan> load(const ConvSpec& spec) const;
  void store(const ConvSpec& spec, const StoredPlan& plan) const;

 private:
  CudnnPlanCache(std::unique_ptr<KernelCache> cache, std::string where)
      : cache_(std::move(cache)), where_(std::move(where)) {}
  std::string key(const ConvSpec& spec) const;

  std::unique_ptr<KernelCache> cache_;
  std::string where_;  // device and version
};

}  // namespace fusec::runtime::cudnn

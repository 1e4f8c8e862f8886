// SPDX-License-Identifier: Apache-2.0
// Convolution plans as cuDNN writes them down, in the kernel cache: building one asks heuristics and may compile
// kernels, reading one does neither.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "fusec/options.h"
#include "runtime/cache/artifact.h"
#include "runtime/library/cudnn/spec.h"

namespace fusec::runtime::cudnn {

struct StoredPlan {
  std::string name;  // PlanInfo::name; of a refusal: cuDNN's reason
  std::string
      text;  // cuDNN's, of one version and device; empty: it has no plan, which may have taken it seconds to find out
};

// Thread-safe. Faults are the kernel cache's: a plan is then built.
class PlanCache {
 public:
  // Null where there is no cache, or the device has no name.
  static std::unique_ptr<PlanCache> open(const Options& options, const std::string& device, const std::string& version);
  std::optional<StoredPlan> load(const ConvSpec& spec) const;
  void store(const ConvSpec& spec, const StoredPlan& plan) const;

 private:
  PlanCache(std::unique_ptr<KernelCache> cache, std::string where)
      : cache_(std::move(cache)), where_(std::move(where)) {}
  std::string key(const ConvSpec& spec) const;

  std::unique_ptr<KernelCache> cache_;
  std::string where_;  // device and version
};

}  // namespace fusec::runtime::cudnn

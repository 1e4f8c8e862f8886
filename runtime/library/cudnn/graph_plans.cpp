// SPDX-License-Identifier: Apache-2.0
// Shares the plans of equal calls, by the texts of their specs, for as long as an op holds them.

#include <utility>

#include "runtime/library/cudnn/build.h"

namespace fusec::runtime::cudnn {

template <class Build>
Result<std::shared_ptr<const CudnnPlan>> GraphPlans::get(const std::string& key, const Build& build) {
  return in_flight_.run(key, [&]() -> Result<std::shared_ptr<const CudnnPlan>> {
    if (std::shared_ptr<const CudnnPlan> work = find(key)) return work;
    FUSEC_ASSIGN(std::shared_ptr<const CudnnPlan> work, build());
    const std::lock_guard lock(mutex_);
    std::erase_if(plans_, [](const auto& plan) { return plan.second.expired(); });
    plans_[key] = work;
    return work;
  });
}

Result<std::shared_ptr<const CudnnPlan>> GraphPlans::get(Backend& backend, const ConvSpec& spec) {
  return get(to_text(spec), [&] { return backend.conv(spec); });
}

Result<std::shared_ptr<const CudnnPlan>> GraphPlans::get(Backend& backend, const AttentionSpec& spec) {
  return get(to_text(spec), [&] { return backend.attention(spec); });
}

std::shared_ptr<const CudnnPlan> GraphPlans::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto it = plans_.find(key);
  return it == plans_.end() ? nullptr : it->second.lock();
}

}  // namespace fusec::runtime::cudnn

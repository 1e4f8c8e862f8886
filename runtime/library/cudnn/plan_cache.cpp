// SPDX-License-Identifier: Apache-2.0
// Loads and stores serialized cuDNN plans as entries of the kernel cache, at bind. The key contains the device and
// cuDNN's version, because a plan is valid only for these.

#include "runtime/library/cudnn/plan_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace fusec::runtime::cudnn {
std::unique_ptr<CudnnPlanCache> CudnnPlanCache::open(const Options& options, const std::string& device,
                                                     const std::string& version) {
  if (device.empty() || !options.use_cache) return nullptr;
  auto cache = KernelCache::open_root(cache_root(options), make_warn(options), options.cache_limit);
  if (!cache.ok()) return nullptr;  // the engine's own kernel cache warns of this
  return std::unique_ptr<CudnnPlanCache>(
      new CudnnPlanCache(std::move(cache).value(), fmt::format("cudnn plan 4; {}; cudnn {}; ", device, version)));
}

std::string CudnnPlanCache::key(const ConvSpec& spec) const { return where_ + to_text(spec); }

// The image of an entry is the name, a line feed, and the text.
std::optional<StoredPlan> CudnnPlanCache::load(const ConvSpec& spec) const {
  const std::optional<codegen::Artifact> entry = cache_->load(key(spec));
  if (!entry) return std::nullopt;
  const auto end = std::find(entry->image.begin(), entry->image.end(), static_cast<uint8_t>('\n'));
  if (end == entry->image.end()) return std::nullopt;
  return StoredPlan{{entry->image.begin(), end}, {end + 1, entry->image.end()}};
}

void CudnnPlanCache::store(const ConvSpec& spec, const StoredPlan& plan) const {
  codegen::Artifact entry;
  entry.key = key(spec);
  entry.image.assign(plan.name.begin(), plan.name.end());
  std::replace(entry.image.begin(), entry.image.end(), static_cast<uint8_t>('\n'), static_cast<uint8_t>(' '));
  entry.image.push_back('\n');
  entry.image.insert(entry.image.end(), plan.text.begin(), plan.text.end());
  cache_->store(entry);
}

}  // namespace fusec::runtime::cudnn

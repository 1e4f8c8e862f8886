// SPDX-License-Identifier: Apache-2.0
// Looks up captured CUDA graphs by the addresses of the caller's tensors and evicts the least recently used one. It
// also counts consecutive new sets of addresses, by which the runner detects callers whose addresses rotate.

#include "runtime/device/cuda/graphs.h"

#include <algorithm>

namespace fusec::runtime::cuda {
namespace {

bool has_addresses(const GraphCache::Entry& entry, std::span<void* const> inputs, std::span<void* const> outputs) {
  const auto middle = entry.addresses.begin() + static_cast<std::ptrdiff_t>(inputs.size());
  return std::equal(inputs.begin(), inputs.end(), entry.addresses.begin()) &&
         std::equal(outputs.begin(), outputs.end(), middle);
}

}  // namespace

GraphCache::Entry* GraphCache::find(std::span<void* const> inputs, std::span<void* const> outputs) {
  for (Entry& entry : entries_) {
    if (!has_addresses(entry, inputs, outputs)) continue;
    entry.used = ++clock_;
    fresh_in_a_row_ = 0;
    return &entry;
  }
  return nullptr;
}

GraphCache::Entry& GraphCache::add(std::span<void* const> inputs, std::span<void* const> outputs) {
  ++fresh_in_a_row_;
  auto at = entries_.end();
  if (entries_.size() >= kCapacity) {
    at = std::min_element(entries_.begin(), entries_.end(),
                          [](const Entry& a, const Entry& b) { return a.used < b.used; });
    *at = Entry();
  } else {
    at = entries_.emplace(entries_.end());
  }
  at->addresses.assign(inputs.begin(), inputs.end());
  at->addresses.insert(at->addresses.end(), outputs.begin(), outputs.end());
  at->used = ++clock_;
  return *at;
}

}  // namespace fusec::runtime::cuda

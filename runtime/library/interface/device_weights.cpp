// SPDX-License-Identifier: Apache-2.0
// Packs constant weights on the host and uploads them to the GPU at bind, once per layout. The memory is freed with the
// last library instance that asked for it.

#include "runtime/library/interface/device_weights.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "ir/ops/cast.h"
#include "runtime/device/host/memory.h"

namespace fusec::runtime {

struct DeviceWeights::Packed {
  std::shared_ptr<DeviceMemory> memory;
  void* address;
  uint64_t sample;  // of the constant: its address may have been another's before
  Packed(std::shared_ptr<DeviceMemory> from, void* at, uint64_t of)
      : memory(std::move(from)), address(at), sample(of) {}
  ~Packed() { memory->free(address); }
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;
};

struct DeviceWeights::Registry {
  std::mutex mutex;
  std::map<Key, std::weak_ptr<const Packed>> packed;
};

DeviceWeights::Registry& DeviceWeights::registry() {
  static auto* const all = new Registry;  // outlives Engines in static variables
  return *all;
}

namespace {

// Of up to 64 elements.
uint64_t sample_of(const CallOperand& from) {
  constexpr int64_t kElements = 64;
  const int64_t count = product(from.dims), step = std::max<int64_t>(1, count / kElements);
  const auto element = static_cast<int64_t>(size_of(from.dtype));
  uint64_t out = static_cast<uint64_t>(count);
  for (int64_t i = 0; i < count; i += step) {
    int64_t at = 0, rest = i;
    for (std::size_t axis = from.dims.size(); axis-- > 0; rest /= from.dims[axis])
      at += rest % from.dims[axis] * from.strides[axis];
    uint64_t word = 0;
    std::memcpy(&word, static_cast<const char*>(from.constant) + at * element, static_cast<std::size_t>(element));
    out = (out ^ word) * 0x9e3779b97f4a7c15;
  }
  return out;
}

}  // namespace

DeviceWeights::~DeviceWeights() {
  for (void* memory : owned_) memory_->free(memory);
}

Result<void*> DeviceWeights::upload(const void* bytes, std::size_t size) {
  FUSEC_ASSIGN(void* const device, memory_->allocate(size));
  if (Status status = memory_->upload(device, bytes, size); !status.ok()) {
    memory_->free(device);
    return status;
  }
  return device;
}

Result<std::shared_ptr<const DeviceWeights::Packed>> DeviceWeights::pack(const CallOperand& from,
                                                                         const Extents& strides) {
  const std::size_t element = size_of(from.dtype);
  std::vector<char> host(static_cast<std::size_t>(product(from.dims)) * element);
  strided_copy(host.data(), strides, from.constant, from.strides, from.dims, static_cast<int64_t>(element));
  FUSEC_ASSIGN(void* const device, upload(host.data(), host.size()));
  return std::make_shared<const Packed>(memory_, device, sample_of(from));
}

Result<void*> DeviceWeights::get(const CallOperand& from, const Extents& strides) {
  const std::lock_guard lock(mutex_);
  const Key key{memory_->place(), from.constant, from.dims, from.strides, strides};
  std::shared_ptr<const Packed>& mine = packed_[key];
  if (mine) return mine->address;
  const std::lock_guard all(registry().mutex);
  std::weak_ptr<const Packed>& known = registry().packed[key];
  std::shared_ptr<const Packed> found = known.lock();
  if (!found || found->sample != sample_of(from)) {
    FUSEC_ASSIGN(found, pack(from, strides));
    known = found;
    std::erase_if(registry().packed, [](const auto& entry) { return entry.second.expired(); });
  }
  mine = std::move(found);
  return mine->address;
}

Result<void*> DeviceWeights::filled(DType dtype, double value, int64_t count) {
  const std::lock_guard lock(mutex_);
  const auto rounded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)));
  const std::tuple key(dtype, value, rounded);
  if (const auto it = filled_.find(key); it != filled_.end()) return it->second;
  const std::size_t element = size_of(dtype);
  std::vector<char> host(static_cast<std::size_t>(rounded) * element);
  for (int64_t i = 0; i < rounded; ++i) {
    ir::store_double(dtype, host.data() + static_cast<std::size_t>(i) * element, value);
  }
  FUSEC_ASSIGN(void* const device, upload(host.data(), host.size()));
  owned_.push_back(device);
  filled_[key] = device;
  return device;
}

Result<void*> DeviceWeights::causal_mask(DType dtype, int64_t queries, int64_t keys, int64_t row) {
  const std::lock_guard lock(mutex_);
  const std::tuple key(dtype, queries, keys, row);
  if (const auto it = causal_masks_.find(key); it != causal_masks_.end()) return it->second;
  const auto element = static_cast<int64_t>(size_of(dtype));
  std::vector<char> host(static_cast<std::size_t>(queries * row * element));
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = i + keys - queries + 1; j < keys; ++j)
      ir::store_double(dtype, host.data() + (i * row + j) * element, -std::numeric_limits<double>::infinity());
  }
  FUSEC_ASSIGN(void* const device, upload(host.data(), host.size()));
  owned_.push_back(device);
  causal_masks_[key] = device;
  return device;
}

}  // namespace fusec::runtime

// SPDX-License-Identifier: Apache-2.0
// Packs constant weights on the host and uploads them to the GPU at bind, once per layout. The memory is freed with the
// library instance.

#include "runtime/library/interface/device_weights.h"

#include <bit>
#include <utility>

#include "ir/ops/cast.h"
#include "runtime/device/host/memory.h"

namespace fusec::runtime {

DeviceWeights::~DeviceWeights() {
  for (void* memory : owned_) memory_->free(memory);
}

Result<void*> DeviceWeights::upload(const void* bytes, std::size_t size) {
  FUSEC_ASSIGN(void* const device, memory_->allocate(size));
  owned_.push_back(device);
  FUSEC_TRY(memory_->upload(device, bytes, size));
  return device;
}

Result<void*> DeviceWeights::get(const CallOperand& from, const Extents& strides) {
  const std::lock_guard lock(mutex_);
  const Key key{from.constant, from.dims, from.strides, strides};
  if (const auto it = packed_.find(key); it != packed_.end()) return it->second;
  const std::size_t element = size_of(from.dtype);
  std::vector<char> host(static_cast<std::size_t>(product(from.dims)) * element);
  strided_copy(host.data(), strides, from.constant, from.strides, from.dims, static_cast<int64_t>(element));
  FUSEC_ASSIGN(void* const device, upload(host.data(), host.size()));
  packed_[key] = device;
  return device;
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
  filled_[key] = device;
  return device;
}

}  // namespace fusec::runtime

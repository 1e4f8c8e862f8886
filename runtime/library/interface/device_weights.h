// SPDX-License-Identifier: Apache-2.0
// The constants of an Engine in device memory, in the orders that libraries request. Each is made once on the host and
// then shared.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "runtime/library/interface/cuda_memory.h"
#include "runtime/library/interface/problem.h"

namespace fusec::runtime {

class DeviceWeights {
 public:
  explicit DeviceWeights(std::shared_ptr<DeviceMemory> memory) : memory_(std::move(memory)) {}
  ~DeviceWeights();
  DeviceWeights(const DeviceWeights&) = delete;
  DeviceWeights& operator=(const DeviceWeights&) = delete;

  // The device address of the constant `from`, with `strides` that are dense in some order.
  Result<void*> get(const CallOperand& from, const Extents& strides);
  // At least `count` elements with `value`.
  Result<void*> filled(DType dtype, double value, int64_t count);

 private:
  using Key = std::tuple<const void*, Extents, Extents, Extents>;  // address, dims, strides, strides wanted

  Result<void*> upload(const void* bytes, std::size_t size);

  std::shared_ptr<DeviceMemory> memory_;
  std::mutex mutex_;
  std::map<Key, void*> packed_;
  std::map<std::tuple<DType, double, int64_t>, void*> filled_;
  std::vector<void*> owned_;
};

}  // namespace fusec::runtime

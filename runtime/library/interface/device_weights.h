// SPDX-License-Identifier: Apache-2.0
// The constants of an Engine in device memory, in the orders that libraries request: each is made once on the host and
// then shared by all Engines of the process that have the constant at the same address (runtime/run/cuda/constants.h).
// The runtime implements the memory with its driver table, tests with host memory.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

#include "fusec/status.h"
#include "runtime/library/interface/problem.h"

namespace fusec::runtime {

// All functions are thread-safe and synchronous. None may be called while a stream captures on the calling thread.
struct DeviceMemory {
  virtual ~DeviceMemory() = default;
  virtual Result<void*> allocate(std::size_t bytes) = 0;  // 256-byte aligned; out_of_memory
  virtual Status upload(void* device, const void* host, std::size_t bytes) = 0;
  virtual void free(void* device) = 0;
  // The same for all that give memory of one GPU.
  virtual const void* place() const { return this; }
  // The hardware, "NVIDIA H200, 132 SMs"; empty: unknown.
  virtual std::string device_name() const { return {}; }
};

class DeviceWeights {
 public:
  explicit DeviceWeights(std::shared_ptr<DeviceMemory> memory) : memory_(std::move(memory)) {}
  ~DeviceWeights();
  DeviceWeights(const DeviceWeights&) = delete;
  DeviceWeights& operator=(const DeviceWeights&) = delete;

  // The device address of the constant `from`, with `strides` that are dense in some order. The constant must live as
  // long as this object.
  Result<void*> get(const CallOperand& from, const Extents& strides);
  // At least `count` elements with `value`.
  Result<void*> filled(DType dtype, double value, int64_t count);
  // An attention's mask of 0 for the keys up to i + keys - queries of query i, and -infinity for the others; rows are
  // `row` elements apart.
  Result<void*> causal_mask(DType dtype, int64_t queries, int64_t keys, int64_t row);

 private:
  struct Packed;
  // Of the device, address, dims, strides, strides wanted.
  using Key = std::tuple<const void*, const void*, Extents, Extents, Extents>;
  struct Registry;
  static Registry& registry();

  Result<void*> upload(const void* bytes, std::size_t size);
  Result<std::shared_ptr<const Packed>> pack(const CallOperand& from, const Extents& strides);

  std::shared_ptr<DeviceMemory> memory_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Packed>> packed_;
  std::map<std::tuple<DType, double, int64_t>, void*> filled_;
  std::map<std::tuple<DType, int64_t, int64_t, int64_t>, void*> causal_masks_;
  std::vector<void*> owned_;
};

}  // namespace fusec::runtime

// SPDX-License-Identifier: Apache-2.0
// The device memory that libraries need when they bind: packed weights. The runtime implements it over its driver
// table, tests over host memory.
#pragma once

#include <cstddef>
#include <string>

#include "fusec/status.h"

namespace fusec::runtime {

// All functions are thread-safe and done when they return; none is called while a stream captures on the thread.
struct DeviceMemory {
  virtual ~DeviceMemory() = default;
  virtual Result<void*> allocate(std::size_t bytes) = 0;  // 256-byte aligned; out_of_memory
  virtual Status upload(void* device, const void* host, std::size_t bytes) = 0;
  virtual void free(void* device) = 0;
  // The hardware, "NVIDIA H200, 132 SMs"; empty: not known.
  virtual std::string device_name() const { return {}; }
};

}  // namespace fusec::runtime

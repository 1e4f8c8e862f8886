// SPDX-License-Identifier: Apache-2.0
// Host memory in place of a device's, counted.
#pragma once

#include <cstdlib>
#include <cstring>

#include "runtime/library/interface/device_weights.h"

namespace fusec::runtime::testing {

struct HostDeviceMemory : DeviceMemory {
  Result<void*> allocate(std::size_t bytes) override {
    ++alive, ++made;
    return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  }
  Status upload(void* device, const void* host, std::size_t bytes) override {
    std::memcpy(device, host, bytes);
    return {};
  }
  void free(void* device) override {
    --alive;
    std::free(device);
  }

  int alive = 0, made = 0;
};

}  // namespace fusec::runtime::testing

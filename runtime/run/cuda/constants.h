// SPDX-License-Identifier: Apache-2.0
// The constants of Programs in the memory of a GPU: they are there once for all Programs of the process.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "fusec/tensor.h"
#include "runtime/device/cuda/handles.h"

namespace fusec::runtime::cuda {

// A large constant on the device, or all small ones of a Program. Thread-safe.
class DeviceConstant {
 public:
  explicit DeviceConstant(Tensor host) : host_(std::move(host)) {}
  const Tensor& host() const { return host_; }  // the same bytes
  // Uploads it at the first call, without waiting for the device.
  Result<void*> address(const ContextPtr& context) const;

 private:
  const Tensor host_;
  mutable std::mutex mutex_;
  mutable DeviceBuffer memory_;
};

struct DeviceConstants {
  std::vector<void*> addresses;                               // by index; null: uploaded when a Plan reads it, or empty
  std::vector<std::shared_ptr<const DeviceConstant>> shared;  // by index, null for small ones; then all small ones
};

// Uploads constants, but not those for which `is_later` holds. A large one that another live Program has on this GPU
// with equal bytes is not uploaded again: its memory is shared, and `constants` takes the host's memory of the other,
// so that weights that libraries pack are found by their address. The small ones of a Program are shared together.
// out_of_memory, device.
Result<DeviceConstants> upload_constants(const ContextPtr& context, std::vector<Tensor>& constants,
                                         const std::vector<bool>& is_later);

}  // namespace fusec::runtime::cuda

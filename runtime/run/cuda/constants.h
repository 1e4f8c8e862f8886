// SPDX-License-Identifier: Apache-2.0
// The constants of Programs in the memory of a GPU: they are there once for all Programs of the process.
#pragma once

#include <memory>
#include <vector>

#include "fusec/tensor.h"
#include "runtime/device/cuda/handles.h"

namespace fusec::runtime::cuda {

// A large constant on the device, or all small ones of a Program.
struct DeviceConstant {
  Tensor host;  // the same bytes
  DeviceBuffer memory;
};

struct DeviceConstants {
  std::vector<void*> addresses;  // by index
  std::vector<std::shared_ptr<const DeviceConstant>> shared;
};

// Uploads constants. A large one that another live Program has on this GPU with equal bytes is not uploaded again: its
// memory is shared, and `constants` takes the host's memory of the other, so that weights that libraries pack are found
// by their address. The small ones of a Program are shared together. out_of_memory, device.
Result<DeviceConstants> upload_constants(const ContextPtr& context, std::vector<Tensor>& constants);

}  // namespace fusec::runtime::cuda

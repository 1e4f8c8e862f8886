// SPDX-License-Identifier: Apache-2.0
// Device memory for the packed weights of libraries.
#pragma once

#include <memory>

#include "runtime/device/cuda/context.h"
#include "runtime/library/interface/cuda_memory.h"

namespace fusec::runtime::cuda {

// Keeps the context. Makes it current for each call.
std::shared_ptr<DeviceMemory> make_library_memory(ContextPtr context);

}  // namespace fusec::runtime::cuda

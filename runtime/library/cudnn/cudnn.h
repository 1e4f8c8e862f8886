// SPDX-License-Identifier: Apache-2.0
// The library that calls cuDNN: conv with bias, an addend and an activation; max_pool and avg_pool.
#pragma once

#include <memory>

#include "fusec/options.h"
#include "runtime/library/cudnn/spec.h"
#include "runtime/library/interface/device_weights.h"
#include "runtime/library/interface/library.h"

namespace fusec::runtime {

// `unsupported`: cuDNN is missing; `device`: it finds no GPU.
Result<std::shared_ptr<Library>> make_cudnn_library(const Options& options, std::shared_ptr<DeviceMemory> memory);
// The same with a substitute backend.
std::shared_ptr<Library> make_cudnn_library(const Options& options, std::shared_ptr<DeviceMemory> memory,
                                            std::shared_ptr<cudnn::Backend> backend);

}  // namespace fusec::runtime

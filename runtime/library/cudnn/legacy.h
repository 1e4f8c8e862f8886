// SPDX-License-Identifier: Apache-2.0
// Plans based on cuDNN's functions outside the graph API: pooling, copies, fills and in-place epilogues. They accept
// any strides, propagate NaN and run on every GPU, unlike graph API plans for single pointwise ops.
#pragma once

#include <memory>

#include "fusec/options.h"
#include "runtime/library/cudnn/handles.h"
#include "runtime/library/cudnn/spec.h"

namespace fusec::runtime::cudnn {

Result<std::unique_ptr<CudnnPlan>> pool_plan(std::shared_ptr<Handles> handles, const PoolSpec& spec);
Result<std::unique_ptr<CudnnPlan>> copy_plan(std::shared_ptr<Handles> handles, const TensorSpec& from,
                                             const TensorSpec& to);
Result<std::unique_ptr<CudnnPlan>> fill_plan(std::shared_ptr<Handles> handles, const TensorSpec& out, double value);
Result<std::unique_ptr<CudnnPlan>> epilogue_plan(std::shared_ptr<Handles> handles, const EpilogueSpec& epilogue,
                                                 const TensorSpec& out);

// The cuDNN backend for the device with this name (DeviceMemory::device_name). `device` if cuDNN is missing or finds no
// GPU.
Result<std::shared_ptr<Backend>> open_cudnn(const Options& options, const std::string& device_name);

}  // namespace fusec::runtime::cudnn

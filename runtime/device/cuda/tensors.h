// SPDX-License-Identifier: Apache-2.0
// What fusec tells of a GPU and keeps on it: the GPU's part of fusec/device.h, and the Target that the compiler is
// given.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "fusec/device.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "runtime/device/cuda/context.h"
#include "runtime/device/cuda/driver.h"

namespace fusec::runtime::cuda {

std::vector<DeviceInfo> list_gpus();
Status driver_status();

Result<Tensor> make_gpu_tensor(const Device& device, DType dtype, std::vector<int64_t> shape);
// At least one of the tensors lies on a GPU; they are alike and not empty.
Status copy_with_gpu(const Tensor& from, Tensor& to);

// Puts a copy between two tensors of the GPU, alike and not overlapping, on the stream. Needs the context current.
// Dense memory is one copy; else there is one per row of two axes.
Status copy_on_stream(const Context& context, const Tensor& from, void* to, std::span<const int64_t> to_strides,
                      CUstream stream);

struct Detected {
  Target target;
  std::string limits_source;  // where they come from
};

// named_target of the GPU's compute capability with the GPU's own figures. An architecture that named_target does not
// know is treated as the closest lower one. unsupported below sm_75.
Result<Detected> detect(const Driver& driver, CUdevice device);

// The target of the GPU, or Options::target where the GPU can run it (else invalid_argument).
Result<Target> cuda_target(const Driver& driver, CUdevice device, const std::string& wanted);

}  // namespace fusec::runtime::cuda

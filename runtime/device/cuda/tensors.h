// SPDX-License-Identifier: Apache-2.0
// The GPU's part of fusec/device.h.
#pragma once

#include <span>
#include <vector>

#include "fusec/device.h"
#include "runtime/device/cuda/context.h"

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

}  // namespace fusec::runtime::cuda

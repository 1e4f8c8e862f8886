// SPDX-License-Identifier: Apache-2.0
// Devices: what there is to run on, and tensors on them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusec/export.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "fusec/tensor.h"

namespace fusec {

FUSEC_API std::string to_string(const Device& device);  // "cpu", "cuda:1"
// "cpu", "cuda" (the first GPU) or "cuda:1"; else invalid_argument.
FUSEC_API Result<Device> parse_device(const std::string& text) noexcept;

struct FUSEC_API DeviceInfo {
  Device device;
  std::string name;  // "NVIDIA H100 80GB HBM3"
  int64_t memory_bytes = 0;
  std::string driver;         // "13.0": the CUDA version that a GPU's driver speaks; empty for the CPU
  Target target;              // what an Engine on it is compiled for
  std::string limits_source;  // where target's figures come from: "from the device", ...
};
// The CPU, then the GPUs that this process can use, by ordinal.
FUSEC_API std::vector<DeviceInfo> devices();
// Ok when there is a GPU that can be used; else device, saying what was looked for.
FUSEC_API Status gpu_status() noexcept;

// Owned row-major memory of `device`, zero-filled.
FUSEC_API Result<Tensor> make_tensor(const Device& device, DType dtype, std::vector<int64_t> shape) noexcept;
// Copies the elements; dtype and shape must agree. Any devices and strides, but the memory must not overlap. Over when
// it answers.
FUSEC_API Status copy(const Tensor& from, Tensor& to) noexcept;

}  // namespace fusec

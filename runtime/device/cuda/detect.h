// SPDX-License-Identifier: Apache-2.0
// What the compiler is told of a GPU.
#pragma once

#include <string>

#include "fusec/status.h"
#include "fusec/target.h"
#include "runtime/device/cuda/driver.h"

namespace fusec::runtime::cuda {

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

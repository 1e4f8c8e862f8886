// SPDX-License-Identifier: Apache-2.0
// CUDA C++ -> cubin by NVRTC, opened at run time. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusec/status.h"
#include "fusec/target.h"

namespace fusec::codegen::cuda {

struct Cubin {
  std::vector<uint8_t> image;
  std::string ptx;
};

Result<Cubin> compile(const std::string& text, const Target& target);
// "13.0", or "none".
std::string nvrtc_version();

}  // namespace fusec::codegen::cuda

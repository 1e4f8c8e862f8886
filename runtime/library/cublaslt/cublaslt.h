// SPDX-License-Identifier: Apache-2.0
// The library that calls cuBLASLt: matmul, and conv with a window of 1 over channels-last images, with bias, an addend
// and relu. In exact numerics it refuses steps with relu, because some algorithms turn NaN into 0 in their relu.
#pragma once

#include <memory>

#include "fusec/options.h"
#include "runtime/library/cublaslt/api.h"
#include "runtime/library/interface/cuda_memory.h"
#include "runtime/library/interface/library.h"

namespace fusec::runtime {

// `unsupported`: cuBLASLt is missing; `device`: it does not start.
Result<std::shared_ptr<Library>> make_cublaslt_library(const Options& options, std::shared_ptr<DeviceMemory> memory);
// The same with the given functions.
Result<std::shared_ptr<Library>> make_cublaslt_library(const Options& options, std::shared_ptr<DeviceMemory> memory,
                                                       const cublaslt::Api& api);

}  // namespace fusec::runtime

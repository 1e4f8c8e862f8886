// SPDX-License-Identifier: Apache-2.0
// The library that calls cuBLASLt: matmul, and conv of window 1 over channels-last images, with bias and an addend.
#pragma once

#include <memory>

#include "fusec/options.h"
#include "runtime/library/cublaslt/api.h"
#include "runtime/library/cuda_memory.h"
#include "runtime/library/library.h"

namespace fusec::runtime {

// `unsupported`: cuBLASLt is missing; `device`: it does not start.
Result<std::shared_ptr<Library>> make_cublaslt_library(const Options& options, std::shared_ptr<DeviceMemory> memory);
// The same with these functions.
Result<std::shared_ptr<Library>> make_cublaslt_library(const Options& options, std::shared_ptr<DeviceMemory> memory,
                                                       const cublaslt::Api& api);

}  // namespace fusec::runtime

// SPDX-License-Identifier: Apache-2.0
// The library that calls cuBLASLt: matmul, and conv of window 1 over channels-last images, with bias, an addend and
// relu. Some of its algorithms make 0 of NaN in relu, so in exact numerics it refuses steps that have one.
#pragma once

#include <memory>

#include "fusec/options.h"
#include "runtime/library/cublaslt/api.h"
#include "runtime/library/interface/cuda_memory.h"
#include "runtime/library/interface/library.h"

namespace fusec::runtime {

// `unsupported`: cuBLASLt is missing; `device`: it does not start.
Result<std::shared_ptr<Library>> make_cublaslt_library(const Options& options, std::shared_ptr<DeviceMemory> memory);
// The same with these functions.
Result<std::shared_ptr<Library>> make_cublaslt_library(const Options& options, std::shared_ptr<DeviceMemory> memory,
                                                       const cublaslt::Api& api);

}  // namespace fusec::runtime

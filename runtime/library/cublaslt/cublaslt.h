// SPDX-License-Identifier: Apache-2.0
// The library that calls cuBLASLt: matmul, and conv with a window of 1 over channels-last images, with bias, an addend
// and relu, or with bias and gelu_tanh. In exact numerics it refuses steps with relu, because some algorithms turn NaN
// into 0 in their relu, and with gelu_tanh.
// cuBLASLt is opened at run time; tests substitute functions of their own.
#pragma once

#include <cublasLt.h>

#include <memory>

#include "fusec/options.h"
#include "fusec/status.h"
#include "ir/support/shared_library.h"
#include "runtime/library/interface/device_weights.h"
#include "runtime/library/interface/library.h"

namespace fusec::runtime::cublaslt {

// Those that are only used for names may be missing.
// clang-format off
#define FUSEC_CUBLASLT(NEED, WANT)                                                                     \
  NEED(create, cublasLtCreate) NEED(destroy, cublasLtDestroy)                                          \
  NEED(status_string, cublasLtGetStatusString) NEED(desc_init, cublasLtMatmulDescInit_internal)        \
  NEED(desc_set, cublasLtMatmulDescSetAttribute) NEED(layout_init, cublasLtMatrixLayoutInit_internal)  \
  NEED(layout_set, cublasLtMatrixLayoutSetAttribute)                                                   \
  NEED(preference_init, cublasLtMatmulPreferenceInit_internal)                                         \
  NEED(preference_set, cublasLtMatmulPreferenceSetAttribute)                                           \
  NEED(heuristic, cublasLtMatmulAlgoGetHeuristic) NEED(matmul, cublasLtMatmul)                         \
  WANT(version, cublasLtGetVersion) WANT(algo_get, cublasLtMatmulAlgoConfigGetAttribute)                   \
  WANT(algo_check, cublasLtMatmulAlgoCheck)
// clang-format on
FUSEC_FUNCTION_TABLE(Api, FUSEC_CUBLASLT);

// `unsupported`: the library or one of its functions is missing.
Result<Api> load_api();

}  // namespace fusec::runtime::cublaslt

namespace fusec::runtime {

// `unsupported`: cuBLASLt is missing; `device`: it does not start.
Result<std::shared_ptr<Library>> make_cublaslt_library(const Options& options, std::shared_ptr<DeviceMemory> memory);
// The same with the given functions.
Result<std::shared_ptr<Library>> make_cublaslt_library(const Options& options, std::shared_ptr<DeviceMemory> memory,
                                                       const cublaslt::Api& api);

}  // namespace fusec::runtime

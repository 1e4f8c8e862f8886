// SPDX-License-Identifier: Apache-2.0
// The functions of cuBLASLt, which is opened at run time. Tests substitute their own.
#pragma once

#include <cublasLt.h>

#include "fusec/status.h"
#include "ir/support/shared_library.h"

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
  WANT(version, cublasLtGetVersion) WANT(algo_get, cublasLtMatmulAlgoConfigGetAttribute)
// clang-format on
FUSEC_FUNCTION_TABLE(Api, FUSEC_CUBLASLT);

// `unsupported`: the library or one of its functions is missing.
Result<Api> load_api();

}  // namespace fusec::runtime::cublaslt

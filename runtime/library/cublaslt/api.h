// SPDX-License-Identifier: Apache-2.0
// The functions of cuBLASLt, which is opened at run time. Tests substitute their own.
#pragma once

#include <cublasLt.h>

#include "fusec/status.h"

namespace fusec::runtime::cublaslt {

struct Api {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetStatusString) status_string = nullptr;
  decltype(&cublasLtMatmulDescInit_internal) desc_init = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutInit_internal) layout_init = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = nullptr;
  decltype(&cublasLtMatmulPreferenceInit_internal) preference_init = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  // May be null: they are only used for names.
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) algo_get = nullptr;
};

// `unsupported`: the library or one of its functions is missing.
Result<Api> load_api();

}  // namespace fusec::runtime::cublaslt

// SPDX-License-Identifier: Apache-2.0
// Loads cuBLASLt with dlopen and looks up the functions that fusec calls. Functions that only name versions or
// algorithms are optional.

#include "runtime/library/cublaslt/api.h"

#include "ir/support/nvidia_libraries.h"

namespace fusec::runtime::cublaslt {

Result<Api> load_api() {
  FUSEC_ASSIGN(const SharedLibrary library, open_nvidia_library(kCublasLt));
  Api api;
  FunctionsOf functions(library);
  functions.need("cublasLtCreate", api.create)
      .need("cublasLtDestroy", api.destroy)
      .need("cublasLtGetStatusString", api.status_string)
      .need("cublasLtMatmulDescInit_internal", api.desc_init)
      .need("cublasLtMatmulDescSetAttribute", api.desc_set)
      .need("cublasLtMatrixLayoutInit_internal", api.layout_init)
      .need("cublasLtMatrixLayoutSetAttribute", api.layout_set)
      .need("cublasLtMatmulPreferenceInit_internal", api.preference_init)
      .need("cublasLtMatmulPreferenceSetAttribute", api.preference_set)
      .need("cublasLtMatmulAlgoGetHeuristic", api.heuristic)
      .need("cublasLtMatmul", api.matmul);
  functions.want("cublasLtGetVersion", api.version);
  functions.want("cublasLtMatmulAlgoConfigGetAttribute", api.algo_get);
  FUSEC_TRY(functions.status("cuBLASLt 12 or newer is needed"));
  return api;
}

}  // namespace fusec::runtime::cublaslt

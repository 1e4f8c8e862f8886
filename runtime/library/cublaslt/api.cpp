// SPDX-License-Identifier: Apache-2.0
#include "runtime/library/cublaslt/api.h"

#include <dlfcn.h>

#include <string>

#include "runtime/library/find_library.h"

namespace fusec::runtime::cublaslt {
namespace {

template <class F>
void find(void* library, const char* name, F& function, std::string& missing) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (function == nullptr) missing += std::string(missing.empty() ? "" : ", ") + name;
}

}  // namespace

Result<Api> load_api() {
  FUSEC_ASSIGN(const OpenLibrary library, find_library({"libcublasLt.so.13", "libcublasLt.so.12"}));
  Api api;
  std::string missing;
  void* const from = library.handle;
  find(from, "cublasLtCreate", api.create, missing);
  find(from, "cublasLtDestroy", api.destroy, missing);
  find(from, "cublasLtGetStatusString", api.status_string, missing);
  find(from, "cublasLtMatmulDescInit_internal", api.desc_init, missing);
  find(from, "cublasLtMatmulDescSetAttribute", api.desc_set, missing);
  find(from, "cublasLtMatrixLayoutInit_internal", api.layout_init, missing);
  find(from, "cublasLtMatrixLayoutSetAttribute", api.layout_set, missing);
  find(from, "cublasLtMatmulPreferenceInit_internal", api.preference_init, missing);
  find(from, "cublasLtMatmulPreferenceSetAttribute", api.preference_set, missing);
  find(from, "cublasLtMatmulAlgoGetHeuristic", api.heuristic, missing);
  find(from, "cublasLtMatmul", api.matmul, missing);
  std::string unneeded;
  find(from, "cublasLtGetVersion", api.version, unneeded);
  find(from, "cublasLtMatmulAlgoConfigGetAttribute", api.algo_get, unneeded);
  if (!missing.empty()) return Status(StatusCode::device, library.path + " lacks " + missing);
  return api;
}

}  // namespace fusec::runtime::cublaslt

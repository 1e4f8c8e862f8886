// SPDX-License-Identifier: Apache-2.0
// Loads cuBLASLt with dlopen and looks up the functions that fusec calls. Functions that only name versions or
// algorithms are optional.

#include "runtime/library/cublaslt/api.h"

#include "ir/support/nvidia_libraries.h"

namespace fusec::runtime::cublaslt {

Result<Api> load_api() {
  FUSEC_ASSIGN(const SharedLibrary library, open_nvidia_library(kCublasLt));
  return load_functions<Api>(library, "cuBLASLt 12 or newer is needed");
}

}  // namespace fusec::runtime::cublaslt

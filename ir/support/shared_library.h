// SPDX-License-Identifier: Apache-2.0
// Libraries of vendors, opened at run time, so that one binary runs with and without them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fusec/status.h"

namespace fusec {

// Stays open for the life of the process: code and threads of a library do not stand being unloaded.
class SharedLibrary {
 public:
  SharedLibrary() = default;
  SharedLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  // Null when the library has no such symbol.
  void* symbol(const char* name) const;
  template <class F>
  bool get(const char* name, F*& function) const {
    function = reinterpret_cast<F*>(symbol(name));
    return function != nullptr;
  }
  const std::string& path() const { return path_; }

 private:
  void* handle_ = nullptr;
  std::string path_;
};

// The first of `names` ("libnvrtc.so.13") that opens, looked for in this order: $FUSEC_CUDA_HOME/lib64, what the process
// has loaded, the loader's own search, /usr/local/cuda/lib64, and nvidia/<package>/lib of the site-packages of the python3
// on PATH, for each of `packages`. unsupported, naming all places, where there is none.
Result<SharedLibrary> open_cuda_library(const std::vector<std::string>& names, const std::vector<std::string>& packages);

// The first file of that name below a toolkit's folder ("nvvm/libdevice/libdevice.10.bc"), looked for in $FUSEC_CUDA_HOME,
// /usr/local/cuda and nvidia/<package> of those site-packages. unsupported, naming all places, where there is none.
Result<std::string> find_cuda_file(const std::string& name, const std::vector<std::string>& packages);

}  // namespace fusec

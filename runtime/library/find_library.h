// SPDX-License-Identifier: Apache-2.0
// Finds and opens NVIDIA's shared libraries, none of which is linked: one binary runs with and without them.
#pragma once

#include <string>
#include <vector>

#include "fusec/status.h"

namespace fusec::runtime {

struct OpenLibrary {
  void* handle = nullptr;  // of dlopen; never closed
  std::string path;        // or the name that the dynamic linker found it by
};

// The first of `names` ("libcublasLt.so.13", "libcublasLt.so.12") that is found, asking in this order:
// $FUSEC_CUDA_HOME/lib64; what the process has already loaded; the dynamic linker; /usr/local/cuda/lib64; the packages
// nvidia/* of the Python that is first on PATH. `device`: none was, with what was tried.
Result<OpenLibrary> find_library(const std::vector<std::string>& names);

// Folders named `nvidia` in the site-packages of a Python whose program is `python`, also where it is a link into
// another installation or lies in a virtual environment. No Python is run.
std::vector<std::string> nvidia_packages(const std::string& python);

}  // namespace fusec::runtime

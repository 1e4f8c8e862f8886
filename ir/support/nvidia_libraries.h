// SPDX-License-Identifier: Apache-2.0
// Where NVIDIA's libraries lie. None of them is linked.
#pragma once

#include <string>
#include <vector>

#include "ir/support/shared_library.h"

namespace fusec {

struct NvidiaLibrary {
  const char* name;     // of the file lib<name>.so.<version>
  int newest, oldest;   // the versions that are taken
  const char* product;  // what to install for it
};

inline constexpr NvidiaLibrary kNvrtc{"nvrtc", 13, 12, "the CUDA toolkit"};
inline constexpr NvidiaLibrary kNvJitLink{"nvJitLink", 13, 12, "the CUDA toolkit"};
inline constexpr NvidiaLibrary kCublasLt{"cublasLt", 13, 12, "the CUDA toolkit"};
inline constexpr NvidiaLibrary kCudnn{"cudnn", 9, 9, "cuDNN 9"};

// The newest version in the first of: $FUSEC_CUDA_HOME/lib64; what the process has loaded; the dynamic linker's own
// search; /usr/local/cuda/lib64; lib and lib64 of the packages nvidia/* of the python3s on PATH. A library that
// $FUSEC_HIDE_LIBRARIES names ("nvrtc,cudnn") is in none. unsupported: what was looked for, where, and what to install.
Result<SharedLibrary> open_nvidia_library(const NvidiaLibrary& library);

// A file below the toolkit's folder ("nvvm/libdevice/libdevice.10.bc"), in the first of $FUSEC_CUDA_HOME,
// /usr/local/cuda and those packages. unsupported as above.
Result<std::string> find_toolkit_file(const std::string& name);

// Folders named `nvidia` in the site-packages of a Python whose program is `python`, also where it is a link into
// another installation or lies in a virtual environment. No Python is run.
std::vector<std::string> nvidia_packages(const std::string& python);

}  // namespace fusec

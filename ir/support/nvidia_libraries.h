// SPDX-License-Identifier: Apache-2.0
// Finds NVIDIA's libraries at run time. None of them is linked.
#pragma once

#include <string>
#include <vector>

#include "ir/support/shared_library.h"

namespace fusec {

struct NvidiaLibrary {
  const char* name;     // as in the file lib<name>.so.<version>
  int newest, oldest;   // the accepted versions
  const char* product;  // what to install to get it
};

inline constexpr NvidiaLibrary kNvrtc{"nvrtc", 13, 12, "the CUDA toolkit"};
inline constexpr NvidiaLibrary kNvJitLink{"nvJitLink", 13, 12, "the CUDA toolkit"};
inline constexpr NvidiaLibrary kCublasLt{"cublasLt", 13, 12, "the CUDA toolkit"};
inline constexpr NvidiaLibrary kCudnn{"cudnn", 9, 9, "cuDNN 9"};

// Opens the newest version in the first of these places that has one: $FUSEC_CUDA_HOME/lib64; what the process has
// loaded; the dynamic linker's own search; /usr/local/cuda/lib64; lib and lib64 of the packages nvidia/* of the
// python3s on PATH. A library named in $FUSEC_HIDE_LIBRARIES ("nvrtc,cudnn") is not found. unsupported: says what was
// looked for, where, and what to install.
Result<SharedLibrary> open_nvidia_library(const NvidiaLibrary& library);

// A file below the toolkit's folder ("nvvm/libdevice/libdevice.10.bc"), in the first of $FUSEC_CUDA_HOME,
// /usr/local/cuda and those packages that has it. unsupported as above.
Result<std::string> find_toolkit_file(const std::string& name);

// The folders named `nvidia` in the site-packages of the Python whose program is `python`, even if it is a link into
// another installation or lies in a virtual environment. Python is not run.
std::vector<std::string> nvidia_packages(const std::string& python);

}  // namespace fusec

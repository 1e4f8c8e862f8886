// SPDX-License-Identifier: Apache-2.0
// Finds NVIDIA's libraries and asks each for its version, for `fusec doctor`. A library that is missing is reported
// with what is lost without it.

#include "runtime/tool/gpu_libraries.h"

#include "ir/support/shared_library.h"

namespace fusec::tool {
namespace {

std::string dotted(int major, int minor) { return std::to_string(major) + "." + std::to_string(minor); }
std::string dotted(std::size_t version, std::size_t thousand, std::size_t ten) {
  return std::to_string(version / thousand) + "." + std::to_string(version % thousand / ten) + "." +
         std::to_string(version % ten);
}

// The libraries' own functions that tell their versions, by their documented signatures.
std::string nvrtc_version(void* symbol) {
  int major = 0, minor = 0;
  return reinterpret_cast<int (*)(int*, int*)>(symbol)(&major, &minor) == 0 ? dotted(major, minor) : "unknown version";
}
std::string assembler_version(void* symbol) {  // of the PTX compiler or nvJitLink
  unsigned major = 0, minor = 0;
  const int failed = reinterpret_cast<int (*)(unsigned*, unsigned*)>(symbol)(&major, &minor);
  return failed == 0 ? dotted(static_cast<int>(major), static_cast<int>(minor)) : "unknown version";
}
std::string cublaslt_version(void* symbol) { return dotted(reinterpret_cast<std::size_t (*)()>(symbol)(), 10000, 100); }
std::string cudnn_version(void* symbol) { return dotted(reinterpret_cast<std::size_t (*)()>(symbol)(), 10000, 100); }

template <const NvidiaLibrary& library>
Result<SharedLibrary> open_nvidia() {
  return open_nvidia_library(library);
}
Result<SharedLibrary> open_ptx_compiler() { return open_own_library(kPtxCompiler); }

struct LibraryRow {
  const char* name;
  Result<SharedLibrary> (*open)();
  const char* symbol;
  std::string (*version)(void*);
  const char* cost;
};

constexpr LibraryRow kLibraryRows[] = {
    {"NVRTC", open_nvidia<kNvrtc>, "nvrtcVersion", nvrtc_version, "kernels that LLVM refuses fail"},
    {"PTX compiler", open_ptx_compiler, "nvPTXCompilerGetVersion", assembler_version,
     "nvJitLink assembles instead, to code that takes more registers"},
    {"nvJitLink", open_nvidia<kNvJitLink>, "nvJitLinkVersion", assembler_version,
     "without the PTX compiler, NVRTC makes the machine code, or the driver"},
    {"cuBLASLt", open_nvidia<kCublasLt>, "cublasLtGetVersion", cublaslt_version,
     "matrix products on a GPU are slower generated code"},
    {"cuDNN", open_nvidia<kCudnn>, "cudnnGetVersion", cudnn_version,
     "convolutions on a GPU are slower matrix products of patches"},
};

}  // namespace

std::vector<GpuLibrary> gpu_libraries() {
  std::vector<GpuLibrary> out;
  for (const LibraryRow& row : kLibraryRows) {
    GpuLibrary found{row.name, "", "", row.cost};
    if (const Result<SharedLibrary> library = row.open(); library.ok()) {
      void* const symbol = library->symbol(row.symbol);
      found.path = library->path();
      found.version = symbol != nullptr ? row.version(symbol) : "unknown version";
    }
    out.push_back(std::move(found));
  }
  return out;
}

}  // namespace fusec::tool

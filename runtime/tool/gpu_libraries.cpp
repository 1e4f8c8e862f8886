// SPDX-License-Identifier: Apache-2.0
#include "runtime/tool/gpu_libraries.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>

namespace fusec::tool {
namespace {

std::string dotted(int major, int minor) { return std::to_string(major) + "." + std::to_string(minor); }
std::string dotted(std::size_t version, std::size_t thousand, std::size_t ten) {
  return std::to_string(version / thousand) + "." + std::to_string(version % thousand / ten) + "." + std::to_string(version % ten);
}

// The libraries' own functions that tell their versions, by their documented signatures.
std::string nvrtc_version(void* symbol) {
  int major = 0, minor = 0;
  return reinterpret_cast<int (*)(int*, int*)>(symbol)(&major, &minor) == 0 ? dotted(major, minor) : "unknown version";
}
std::string nvjitlink_version(void* symbol) {
  unsigned major = 0, minor = 0;
  const int failed = reinterpret_cast<int (*)(unsigned*, unsigned*)>(symbol)(&major, &minor);
  return failed == 0 ? dotted(static_cast<int>(major), static_cast<int>(minor)) : "unknown version";
}
std::string cublaslt_version(void* symbol) { return dotted(reinterpret_cast<std::size_t (*)()>(symbol)(), 10000, 100); }
std::string cudnn_version(void* symbol) { return dotted(reinterpret_cast<std::size_t (*)()>(symbol)(), 10000, 100); }

struct Row {
  const char* name;
  std::vector<std::string> files;
  const char* symbol;
  std::string (*version)(void*);
  const char* cost;
};

std::vector<std::string> folders() {
  std::vector<std::string> out;
  if (const char* home = std::getenv("FUSEC_CUDA_HOME")) out.push_back(std::string(home) + "/lib64/");
  out.push_back("");  // the dynamic linker's own search
  out.push_back("/usr/local/cuda/lib64/");
  return out;
}

void* open_first(const std::vector<std::string>& files) {
  for (const std::string& folder : folders()) {
    for (const std::string& file : files) {
      if (void* handle = dlopen((folder + file).c_str(), RTLD_LAZY | RTLD_LOCAL)) return handle;
    }
  }
  return nullptr;
}

std::string path_of(void* handle) {
  link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? map->l_name : "loaded";
}

}  // namespace

std::vector<GpuLibrary> gpu_libraries() {
  const Row rows[] = {
      {"NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12"}, "nvrtcVersion", nvrtc_version, "kernels are compiled by LLVM and nvJitLink"},
      {"nvJitLink", {"libnvJitLink.so.13", "libnvJitLink.so.12"}, "nvJitLinkVersion", nvjitlink_version,
       "no machine code by --codegen llvm"},
      {"cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"}, "cublasLtGetVersion", cublaslt_version, "no matrix products on a GPU"},
      {"cuDNN", {"libcudnn.so.9"}, "cudnnGetVersion", cudnn_version, "no convolutions and poolings on a GPU"},
  };
  std::vector<GpuLibrary> out;
  for (const Row& row : rows) {
    GpuLibrary library{row.name, "", "", row.cost};
    if (void* handle = open_first(row.files)) {
      void* const symbol = dlsym(handle, row.symbol);
      library.path = path_of(handle);
      library.version = symbol != nullptr ? row.version(symbol) : "unknown version";
    }
    out.push_back(std::move(library));
  }
  return out;
}

}  // namespace fusec::tool

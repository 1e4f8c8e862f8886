// SPDX-License-Identifier: Apache-2.0
// An NVRTC that takes no kernel: its functions by their C signatures, results 0 for success. Its log says so if it was
// not asked to leave its own cache alone.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>

#define FUSEC_FAKE extern "C" __attribute__((visibility("default")))

namespace {

constexpr char kRefused[] = "refused by a test";
constexpr char kCached[] = "would use a cache";
constexpr int kCompilation = 6;
std::atomic<const char*> last_log = kRefused;
int program;

int no_answer(void*, std::size_t* size) {
  *size = 0;
  return 0;
}

}  // namespace

FUSEC_FAKE int nvrtcVersion(int* major, int* minor) {
  *major = 99;
  *minor = 7;
  return 0;
}
FUSEC_FAKE int nvrtcCreateProgram(void** out, const char*, const char*, int, const char* const*, const char* const*) {
  *out = &program;
  return 0;
}
FUSEC_FAKE int nvrtcDestroyProgram(void**) { return 0; }
FUSEC_FAKE int nvrtcCompileProgram(void*, int count, const char* const* options) {
  const bool leaves_cache =
      std::any_of(options, options + count, [](const char* option) { return std::strcmp(option, "--no-cache") == 0; });
  last_log = leaves_cache ? kRefused : kCached;
  return kCompilation;
}
FUSEC_FAKE int nvrtcGetProgramLogSize(void*, std::size_t* size) {
  *size = std::strlen(last_log.load()) + 1;
  return 0;
}
FUSEC_FAKE int nvrtcGetProgramLog(void*, char* log) {
  std::strcpy(log, last_log.load());
  return 0;
}
FUSEC_FAKE int nvrtcGetCUBINSize(void* p, std::size_t* size) { return no_answer(p, size); }
FUSEC_FAKE int nvrtcGetCUBIN(void*, char*) { return 0; }
FUSEC_FAKE int nvrtcGetPTXSize(void* p, std::size_t* size) { return no_answer(p, size); }
FUSEC_FAKE int nvrtcGetPTX(void*, char*) { return 0; }
FUSEC_FAKE const char* nvrtcGetErrorString(int) { return "NVRTC_ERROR_COMPILATION"; }

// SPDX-License-Identifier: Apache-2.0
// An NVRTC that takes no kernel: its functions by their C signatures, results 0 for success.
#include <cstddef>
#include <cstring>

#define FUSEC_FAKE extern "C" __attribute__((visibility("default")))

namespace {

constexpr char kLog[] = "refused by a test";
constexpr int kCompilation = 6;
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
FUSEC_FAKE int nvrtcCompileProgram(void*, int, const char* const*) { return kCompilation; }
FUSEC_FAKE int nvrtcGetProgramLogSize(void*, std::size_t* size) {
  *size = sizeof kLog;
  return 0;
}
FUSEC_FAKE int nvrtcGetProgramLog(void*, char* log) {
  std::memcpy(log, kLog, sizeof kLog);
  return 0;
}
FUSEC_FAKE int nvrtcGetCUBINSize(void* p, std::size_t* size) { return no_answer(p, size); }
FUSEC_FAKE int nvrtcGetCUBIN(void*, char*) { return 0; }
FUSEC_FAKE int nvrtcGetPTXSize(void* p, std::size_t* size) { return no_answer(p, size); }
FUSEC_FAKE int nvrtcGetPTX(void*, char*) { return 0; }
FUSEC_FAKE const char* nvrtcGetErrorString(int) { return "NVRTC_ERROR_COMPILATION"; }

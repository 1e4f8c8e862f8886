// SPDX-License-Identifier: Apache-2.0
// Compiles CUDA C++ to PTX and a cubin with NVRTC, which is loaded with dlopen on first use. Used by the CUDA emitter;
// needs no GPU. The options forbid contraction and approximate division and keep denormals. Builds without CUDA get
// stubs.

#include "codegen/cuda/cuda.h"

#if FUSEC_WITH_CUDA

#include <nvrtc.h>

#include "codegen/ptx/ptx.h"
#include "ir/support/shared_library.h"

namespace fusec::codegen::cuda {
namespace {

// clang-format off
#define FUSEC_NVRTC(NEED, WANT)                                                                        \
  NEED(version, nvrtcVersion) NEED(create, nvrtcCreateProgram) NEED(destroy, nvrtcDestroyProgram)      \
  NEED(compile, nvrtcCompileProgram) NEED(log_size, nvrtcGetProgramLogSize) NEED(log, nvrtcGetProgramLog) \
  NEED(cubin_size, nvrtcGetCUBINSize) NEED(cubin, nvrtcGetCUBIN) NEED(ptx_size, nvrtcGetPTXSize)       \
  NEED(ptx, nvrtcGetPTX) NEED(error, nvrtcGetErrorString)
// clang-format on
FUSEC_FUNCTION_TABLE(Nvrtc, FUSEC_NVRTC);

Result<Nvrtc> open_nvrtc() {
  FUSEC_ASSIGN(const SharedLibrary library, open_nvidia_library(kNvrtc));
  return load_functions<Nvrtc>(library, "NVRTC of CUDA 12.0 or newer is needed");
}

const Result<Nvrtc>& nvrtc() {
  static const Result<Nvrtc> opened = open_nvrtc();
  return opened;
}

// From CUDA 12.9 on, NVRTC keeps what it compiled in the driver's compute cache ("Caching" in NVIDIA's manual of
// NVRTC). Our own cache has every kernel that may be stored, and --no-cache of the command promises to store nothing.
bool has_cache(const Nvrtc& api) {
  int major = 0, minor = 0;
  return api.version(&major, &minor) == NVRTC_SUCCESS && (major > 12 || (major == 12 && minor >= 9));
}

// Owns an NVRTC program.
class Program {
 public:
  Program(const Nvrtc& api, const std::string& text) : api_(api) {
    result_ = api.create(&program_, text.c_str(), "kernel.cu", 0, nullptr, nullptr);
  }
  ~Program() {
    if (program_ != nullptr) api_.destroy(&program_);
  }
  Program(const Program&) = delete;

  void compile(const std::vector<const char*>& options) {
    if (result_ == NVRTC_SUCCESS) result_ = api_.compile(program_, static_cast<int>(options.size()), options.data());
  }
  bool ok() const { return result_ == NVRTC_SUCCESS; }
  std::string error() const { return api_.error(result_); }
  std::string log() const { return text(api_.log_size, api_.log); }
  std::string ptx() const { return text(api_.ptx_size, api_.ptx); }
  std::vector<uint8_t> cubin() const {
    return two_call_query<std::vector<uint8_t>>(program_, api_.cubin_size, api_.cubin);
  }

 private:
  template <class Size, class Get>
  std::string text(Size size_of, Get get) const {
    return c_text(two_call_query<std::string>(program_, size_of, get));
  }

  const Nvrtc& api_;
  nvrtcProgram program_ = nullptr;
  nvrtcResult result_ = NVRTC_SUCCESS;
};

}  // namespace

Result<Cubin> compile(const std::string& text, const std::string& architecture) {
  if (!nvrtc().ok()) return nvrtc().status();
  const std::string arch = "--gpu-architecture=" + architecture;
  std::vector<const char*> options = {arch.c_str(),       "--fmad=false", "--ftz=false",        "--prec-div=true",
                                      "--prec-sqrt=true", "--std=c++17",  "--disable-warnings", "--minimal"};
  if (has_cache(*nvrtc())) options.push_back("--no-cache");
  Program program(*nvrtc(), text);
  program.compile(options);
  if (!program.ok()) {
    return Status(StatusCode::compile_failed, "NVRTC for " + architecture + ": " + program.error() + "\n" +
                                                  program.log() + source_at_errors(text, program.log()));
  }
  return Cubin{program.cubin(), program.ptx()};
}

std::string nvrtc_version() {
  int major = 0, minor = 0;
  if (!nvrtc().ok() || nvrtc()->version(&major, &minor) != NVRTC_SUCCESS) return "none";
  return std::to_string(major) + "." + std::to_string(minor);
}

}  // namespace fusec::codegen::cuda

#else

namespace fusec::codegen::cuda {

Result<Cubin> compile(const std::string&, const std::string&) {
  return Status(StatusCode::unsupported,
                "this build has no CUDA: configure with -DFUSEC_WITH_CUDA=ON where the toolkit's headers are found");
}

std::string nvrtc_version() { return "none"; }

}  // namespace fusec::codegen::cuda

#endif

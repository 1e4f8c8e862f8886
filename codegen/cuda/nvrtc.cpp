// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/nvrtc.h"

#if FUSEC_WITH_CUDA

#include <nvrtc.h>

#include <memory>

#include "ir/support/shared_library.h"

namespace fusec::codegen::cuda {
namespace {

struct Nvrtc {
  SharedLibrary library;
  decltype(&nvrtcVersion) version = nullptr;
  decltype(&nvrtcCreateProgram) create = nullptr;
  decltype(&nvrtcDestroyProgram) destroy = nullptr;
  decltype(&nvrtcCompileProgram) compile = nullptr;
  decltype(&nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&nvrtcGetProgramLog) log = nullptr;
  decltype(&nvrtcGetCUBINSize) cubin_size = nullptr;
  decltype(&nvrtcGetCUBIN) cubin = nullptr;
  decltype(&nvrtcGetPTXSize) ptx_size = nullptr;
  decltype(&nvrtcGetPTX) ptx = nullptr;
  decltype(&nvrtcGetErrorString) error = nullptr;
};

Result<Nvrtc> open_nvrtc() {
  Nvrtc out;
  FUSEC_ASSIGN(out.library, open_cuda_library({"libnvrtc.so.13", "libnvrtc.so.12"}, {"cu13", "cuda_nvrtc"}));
  const bool whole = out.library.get("nvrtcVersion", out.version) && out.library.get("nvrtcCreateProgram", out.create) &&
                     out.library.get("nvrtcDestroyProgram", out.destroy) && out.library.get("nvrtcCompileProgram", out.compile) &&
                     out.library.get("nvrtcGetProgramLogSize", out.log_size) && out.library.get("nvrtcGetProgramLog", out.log) &&
                     out.library.get("nvrtcGetCUBINSize", out.cubin_size) && out.library.get("nvrtcGetCUBIN", out.cubin) &&
                     out.library.get("nvrtcGetPTXSize", out.ptx_size) && out.library.get("nvrtcGetPTX", out.ptx) &&
                     out.library.get("nvrtcGetErrorString", out.error);
  if (!whole) return Status(StatusCode::unsupported, out.library.path() + " lacks functions of NVRTC 12");
  return out;
}

const Result<Nvrtc>& nvrtc() {
  static const Result<Nvrtc> opened = open_nvrtc();
  return opened;
}

// A program, destroyed at the end.
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
    std::size_t size = 0;
    if (api_.cubin_size(program_, &size) != NVRTC_SUCCESS) return {};
    std::vector<uint8_t> out(size);
    if (size > 0) api_.cubin(program_, reinterpret_cast<char*>(out.data()));
    return out;
  }

 private:
  template <class Size, class Get>
  std::string text(Size size_of, Get get) const {
    std::size_t size = 0;
    if (program_ == nullptr || size_of(program_, &size) != NVRTC_SUCCESS || size <= 1) return "";
    std::string out(size, '\0');
    get(program_, out.data());
    out.resize(size - 1);  // it ends with a zero
    return out;
  }

  const Nvrtc& api_;
  nvrtcProgram program_ = nullptr;
  nvrtcResult result_ = NVRTC_SUCCESS;
};

}  // namespace

Result<Cubin> compile(const std::string& text, const Target& target) {
  if (!nvrtc().ok()) return nvrtc().status();
  const std::string arch = "--gpu-architecture=sm_" + std::to_string(target.sm);
  const std::vector<const char*> options = {arch.c_str(),        "--fmad=false",     "--ftz=false",
                                            "--prec-div=true",   "--prec-sqrt=true", "--std=c++17",
                                            "--disable-warnings", "--minimal"};
  Program program(*nvrtc(), text);
  program.compile(options);
  if (!program.ok()) {
    return Status(StatusCode::compile_failed, "NVRTC for sm_" + std::to_string(target.sm) + ": " + program.error() + "\n" + program.log());
  }
  Cubin out{program.cubin(), program.ptx()};
  if (out.image.empty()) return Status(StatusCode::compile_failed, "NVRTC made no cubin for sm_" + std::to_string(target.sm));
  return out;
}

std::string nvrtc_version() {
  int major = 0, minor = 0;
  if (!nvrtc().ok() || nvrtc()->version(&major, &minor) != NVRTC_SUCCESS) return "none";
  return std::to_string(major) + "." + std::to_string(minor);
}

}  // namespace fusec::codegen::cuda

#else

namespace fusec::codegen::cuda {

Result<Cubin> compile(const std::string&, const Target&) {
  return Status(StatusCode::unsupported,
                "this build has no CUDA: configure with -DFUSEC_WITH_CUDA=ON where the toolkit's headers are found");
}

std::string nvrtc_version() { return "none"; }

}  // namespace fusec::codegen::cuda

#endif

// SPDX-License-Identifier: Apache-2.0
// Assembles PTX to a cubin with nvJitLink, which is loaded with dlopen on first use, so nothing of CUDA is linked. It
// makes relocatable code, in which functions take more registers than in a whole program, and in which warpgroups
// cannot share registers (setmaxnreg is ignored). Used by emit; needs no GPU. Builds without CUDA report `unsupported`.

#include "codegen/ptx/assembler.h"
#include "codegen/ptx/ptx.h"

#if FUSEC_WITH_CUDA

#include <nvJitLink.h>

#include "ir/support/shared_library.h"

namespace fusec::codegen {
namespace {

// Uses the entry points without a version suffix, which the libraries of CUDA 12 and CUDA 13 both export.
// clang-format off
#define FUSEC_NVJITLINK(NEED, WANT)                                                                    \
  NEED(version, nvJitLinkVersion) NEED(create, nvJitLinkCreate) NEED(destroy, nvJitLinkDestroy)        \
  NEED(add_data, nvJitLinkAddData) NEED(complete, nvJitLinkComplete)                                   \
  NEED(cubin_size, nvJitLinkGetLinkedCubinSize) NEED(cubin, nvJitLinkGetLinkedCubin)                   \
  NEED(error_size, nvJitLinkGetErrorLogSize) NEED(error, nvJitLinkGetErrorLog)
// clang-format on
FUSEC_FUNCTION_TABLE(NvJitLink, FUSEC_NVJITLINK);

Result<NvJitLink> open_nvjitlink() {
  FUSEC_ASSIGN(const SharedLibrary library, open_nvidia_library(kNvJitLink));
  return load_functions<NvJitLink>(library, "nvJitLink of CUDA 12.3 or newer is needed");
}

const Result<NvJitLink>& nvjitlink_library() {
  static const Result<NvJitLink> opened = open_nvjitlink();
  return opened;
}

// Owns an nvJitLink handle.
class Link {
 public:
  Link(const NvJitLink& api, std::vector<const char*> options) : api_(api) {
    result_ = api.create(&handle_, static_cast<uint32_t>(options.size()), options.data());
  }
  ~Link() {
    if (handle_ != nullptr) api_.destroy(&handle_);
  }
  Link(const Link&) = delete;

  bool run(const std::string& ptx) {
    if (result_ == NVJITLINK_SUCCESS) {
      result_ = api_.add_data(handle_, NVJITLINK_INPUT_PTX, ptx.c_str(), ptx.size() + 1, "kernel.ptx");
    }
    if (result_ == NVJITLINK_SUCCESS) result_ = api_.complete(handle_);
    return result_ == NVJITLINK_SUCCESS;
  }
  int result() const { return static_cast<int>(result_); }
  std::string error() const { return c_text(two_call_query<std::string>(handle_, api_.error_size, api_.error)); }
  std::vector<uint8_t> cubin() const {
    return two_call_query<std::vector<uint8_t>>(handle_, api_.cubin_size, api_.cubin);
  }

 private:
  const NvJitLink& api_;
  nvJitLinkHandle handle_ = nullptr;
  nvJitLinkResult result_ = NVJITLINK_SUCCESS;
};

Result<std::vector<uint8_t>> assemble_by_nvjitlink(const std::string& ptx, const Target& target) {
  const std::string name = architecture_name(target, ptx), arch = "-arch=" + name;
  // -fma=0 alone is not heeded for PTX: products and sums without a rounding mode are contracted.
  std::vector<const char*> options = {arch.c_str(),   "-fma=0",   "-Xptxas=--fmad=false", "-ftz=0", "-prec-div=1",
                                      "-prec-sqrt=1", "-no-cache"};
  if (has_lines(ptx)) options.push_back("-lineinfo");
  Link link(*nvjitlink_library(), std::move(options));
  if (!link.run(ptx)) {
    return Status(StatusCode::compile_failed,
                  "nvJitLink for " + name + ": error " + std::to_string(link.result()) + "\n" + link.error());
  }
  return link.cubin();
}

Result<Assembler> find_nvjitlink() {
  FUSEC_TRY(nvjitlink_library().status());
  unsigned major = 0, minor = 0;
  if (nvjitlink_library()->version(&major, &minor) != NVJITLINK_SUCCESS)
    return Status(StatusCode::unsupported, "nvJitLink does not tell its version");
  return Assembler{"nvjitlink", static_cast<int>(major), static_cast<int>(minor), assemble_by_nvjitlink};
}

}  // namespace

const Result<Assembler>& nvjitlink() {
  static const Result<Assembler> found = find_nvjitlink();
  return found;
}

}  // namespace fusec::codegen

#else

namespace fusec::codegen {

const Result<Assembler>& nvjitlink() {
  static const Result<Assembler> none = no_cuda();
  return none;
}

}  // namespace fusec::codegen

#endif

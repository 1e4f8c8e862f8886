// SPDX-License-Identifier: Apache-2.0
// Assembles PTX to a cubin with nvJitLink, which is loaded with dlopen on first use, so nothing of CUDA is linked. Used
// by emit; needs no GPU. Builds without CUDA get stubs.

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

const Result<NvJitLink>& nvjitlink() {
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

}  // namespace

Result<std::vector<uint8_t>> assemble(const std::string& ptx, const Target& target) {
  if (!nvjitlink().ok()) return nvjitlink().status();
  const std::string name = "sm_" + std::to_string(target.sm), arch = "-arch=" + name;
  Link link(*nvjitlink(), {arch.c_str(), "-fma=0", "-ftz=0", "-prec-div=1", "-prec-sqrt=1", "-no-cache"});
  if (!link.run(ptx)) {
    return Status(StatusCode::compile_failed,
                  "nvJitLink for " + name + ": error " + std::to_string(link.result()) + "\n" + link.error());
  }
  return link.cubin();
}

bool has_nvjitlink() { return nvjitlink().ok(); }

std::string nvjitlink_version() {
  unsigned major = 0, minor = 0;
  if (!nvjitlink().ok() || nvjitlink()->version(&major, &minor) != NVJITLINK_SUCCESS) return "none";
  return std::to_string(major) + "." + std::to_string(minor);
}

}  // namespace fusec::codegen

#else

namespace fusec::codegen {

Result<std::vector<uint8_t>> assemble(const std::string&, const Target&) {
  return Status(StatusCode::unsupported,
                "this build has no CUDA: configure with -DFUSEC_WITH_CUDA=ON where the toolkit's headers are found");
}

bool has_nvjitlink() { return false; }

std::string nvjitlink_version() { return "none"; }

}  // namespace fusec::codegen

#endif

// SPDX-License-Identifier: Apache-2.0
#include "codegen/nvjitlink.h"

#if FUSEC_WITH_CUDA

#include <nvJitLink.h>

#include "ir/support/shared_library.h"

namespace fusec::codegen {
namespace {

// The names without a version, which libraries of CUDA 12 and 13 export too.
struct NvJitLink {
  SharedLibrary library;
  decltype(&nvJitLinkVersion) version = nullptr;
  decltype(&nvJitLinkCreate) create = nullptr;
  decltype(&nvJitLinkDestroy) destroy = nullptr;
  decltype(&nvJitLinkAddData) add_data = nullptr;
  decltype(&nvJitLinkComplete) complete = nullptr;
  decltype(&nvJitLinkGetLinkedCubinSize) cubin_size = nullptr;
  decltype(&nvJitLinkGetLinkedCubin) cubin = nullptr;
  decltype(&nvJitLinkGetErrorLogSize) error_size = nullptr;
  decltype(&nvJitLinkGetErrorLog) error = nullptr;
};

Result<NvJitLink> open_nvjitlink() {
  NvJitLink out;
  FUSEC_ASSIGN(out.library, open_cuda_library({"libnvJitLink.so.13", "libnvJitLink.so.12"}, {"cu13", "nvjitlink"}));
  const SharedLibrary& l = out.library;
  const bool whole = l.get("nvJitLinkVersion", out.version) && l.get("nvJitLinkCreate", out.create) &&
                     l.get("nvJitLinkDestroy", out.destroy) && l.get("nvJitLinkAddData", out.add_data) &&
                     l.get("nvJitLinkComplete", out.complete) && l.get("nvJitLinkGetLinkedCubinSize", out.cubin_size) &&
                     l.get("nvJitLinkGetLinkedCubin", out.cubin) && l.get("nvJitLinkGetErrorLogSize", out.error_size) &&
                     l.get("nvJitLinkGetErrorLog", out.error);
  if (!whole) return Status(StatusCode::unsupported, l.path() + " lacks functions of nvJitLink 12.3");
  return out;
}

const Result<NvJitLink>& nvjitlink() {
  static const Result<NvJitLink> opened = open_nvjitlink();
  return opened;
}

// A link, destroyed at the end.
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
  std::string error() const { return text(api_.error_size, api_.error); }
  std::vector<uint8_t> cubin() const {
    std::size_t size = 0;
    if (api_.cubin_size(handle_, &size) != NVJITLINK_SUCCESS) return {};
    std::vector<uint8_t> out(size);
    if (size > 0) api_.cubin(handle_, out.data());
    return out;
  }

 private:
  template <class Size, class Get>
  std::string text(Size size_of, Get get) const {
    std::size_t size = 0;
    if (handle_ == nullptr || size_of(handle_, &size) != NVJITLINK_SUCCESS || size <= 1) return "";
    std::string out(size, '\0');
    get(handle_, out.data());
    while (!out.empty() && out.back() == '\0') out.pop_back();
    return out;
  }

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
    return Status(StatusCode::compile_failed, "nvJitLink for " + name + ": error " + std::to_string(link.result()) + "\n" + link.error());
  }
  std::vector<uint8_t> out = link.cubin();
  if (out.empty()) return Status(StatusCode::compile_failed, "nvJitLink made no cubin for " + name);
  return out;
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

// SPDX-License-Identifier: Apache-2.0
// Assembles PTX to a cubin with NVIDIA's PTX compiler, which compiles a whole program, as ptxas does. NVIDIA gives it
// out only as a static archive; the build makes libfusec-ptx-compiler.so of it (cmake/deps/cuda.cmake), which is loaded
// with dlopen on first use. Used by emit; needs no GPU. Builds without the archive report `unsupported`.

#include "codegen/ptx/assembler.h"

#if FUSEC_WITH_PTX_COMPILER

#include <nvPTXCompiler.h>

#include <algorithm>

#include "codegen/ptx/ptx.h"
#include "ir/support/shared_library.h"

namespace fusec::codegen {
namespace {

// clang-format off
#define FUSEC_PTX_COMPILER(NEED, WANT)                                                                 \
  NEED(version, nvPTXCompilerGetVersion) NEED(create, nvPTXCompilerCreate)                             \
  NEED(destroy, nvPTXCompilerDestroy) NEED(compile, nvPTXCompilerCompile)                              \
  NEED(cubin_size, nvPTXCompilerGetCompiledProgramSize) NEED(cubin, nvPTXCompilerGetCompiledProgram)   \
  NEED(error_size, nvPTXCompilerGetErrorLogSize) NEED(error, nvPTXCompilerGetErrorLog)
// clang-format on
FUSEC_FUNCTION_TABLE(PtxCompiler, FUSEC_PTX_COMPILER);

Result<PtxCompiler> open_ptx_compiler() {
  FUSEC_ASSIGN(const SharedLibrary library, open_own_library(kPtxCompiler));
  return load_functions<PtxCompiler>(library, "it is not of this build");
}

const Result<PtxCompiler>& ptx_compiler_library() {
  static const Result<PtxCompiler> opened = open_ptx_compiler();
  return opened;
}

// Owns a handle of the PTX compiler.
class Program {
 public:
  Program(const PtxCompiler& api, const std::string& ptx) : api_(api) {
    result_ = api.create(&handle_, ptx.size(), ptx.c_str());
  }
  ~Program() {
    if (handle_ != nullptr) api_.destroy(&handle_);
  }
  Program(const Program&) = delete;

  bool compile(const std::vector<const char*>& options) {
    if (result_ == NVPTXCOMPILE_SUCCESS)
      result_ = api_.compile(handle_, static_cast<int>(options.size()), options.data());
    return result_ == NVPTXCOMPILE_SUCCESS;
  }
  int result() const { return static_cast<int>(result_); }
  std::string error() const { return c_text(two_call_query<std::string>(handle_, api_.error_size, api_.error)); }
  std::vector<uint8_t> cubin() const {
    return two_call_query<std::vector<uint8_t>>(handle_, api_.cubin_size, api_.cubin);
  }

 private:
  const PtxCompiler& api_;
  nvPTXCompilerHandle handle_ = nullptr;
  nvPTXCompileResult result_ = NVPTXCOMPILE_SUCCESS;
};

// How to divide, round and treat denormals is said by each instruction of the PTX. Only the contraction of products and
// sums without a rounding mode is a matter of the assembler.
Result<std::vector<uint8_t>> assemble_once(const std::string& ptx, const Target& target) {
  const std::string name = architecture_name(target, ptx), arch = "--gpu-name=" + name;
  Program program(*ptx_compiler_library(), ptx);
  std::vector<const char*> options = {arch.c_str(), "--fmad=false"};
  if (has_lines(ptx)) options.push_back("--generate-line-info");
  if (!program.compile(options)) {
    return Status(StatusCode::compile_failed, "the PTX compiler for " + name + ": error " +
                                                  std::to_string(program.result()) + "\n" + program.error());
  }
  return program.cubin();
}

// Of a thread, over all functions.
int64_t local_bytes(const std::vector<uint8_t>& cubin) {
  int64_t out = 0;
  for (const auto& [name, resources] : cuda::read_resources(cubin)) out += resources.local_bytes;
  return out;
}

constexpr int kMaxRegisters = 255;  // of a thread, on every GPU

// Whether a function keeps values in local memory although it may have more registers.
bool spares_registers(const std::vector<uint8_t>& cubin) {
  const auto all = cuda::read_resources(cubin);
  return std::any_of(all.begin(), all.end(), [](const auto& function) {
    return function.second.local_bytes > 0 && function.second.registers < kMaxRegisters;
  });
}

// Whether threads load much and never wait for each other, as in the windows of a depthwise convolution. Then loads
// under way at once, which take registers, count for more than threads: with few images the models convnext_tiny and
// edgenext_small take 10 % longer where ptxas spares registers.
bool loads_much(const std::string& ptx) {
  constexpr int kManyLoads = 12;
  if (ptx.find("\tbar.") != std::string::npos || ptx.find("\tbarrier.") != std::string::npos) return false;
  int loads = 0;
  for (std::size_t at = ptx.find("ld.global"); at != std::string::npos && loads < kManyLoads; ++loads)
    at = ptx.find("ld.global", at + 1);
  return loads >= kManyLoads;
}

// In whole programs, ptxas 13.0 gives some long functions that spill at 255 registers 32 of them, and seven times the
// spills. Where one block per multiprocessor is asked for, which any kernel has, it does not.
Result<std::vector<uint8_t>> assemble_by_ptx_compiler(const std::string& ptx, const Target& target) {
  if (loads_much(ptx)) return assemble_once(ask_for_one_block(ptx), target);
  FUSEC_ASSIGN(std::vector<uint8_t> cubin, assemble_once(ptx, target));
  if (!spares_registers(cubin)) return cubin;
  const std::string asked = ask_for_one_block(ptx);
  if (asked == ptx) return cubin;
  Result<std::vector<uint8_t>> other = assemble_once(asked, target);
  if (other.ok() && local_bytes(*other) < local_bytes(cubin)) return other;
  return cubin;
}

Result<Assembler> find_ptx_compiler() {
  FUSEC_TRY(ptx_compiler_library().status());
  unsigned major = 0, minor = 0;
  if (ptx_compiler_library()->version(&major, &minor) != NVPTXCOMPILE_SUCCESS)
    return Status(StatusCode::unsupported, "the PTX compiler does not tell its version");
  return Assembler{"ptx-compiler", static_cast<int>(major), static_cast<int>(minor), assemble_by_ptx_compiler};
}

}  // namespace

const Result<Assembler>& ptx_compiler() {
  static const Result<Assembler> found = find_ptx_compiler();
  return found;
}

}  // namespace fusec::codegen

#else

namespace fusec::codegen {

const Result<Assembler>& ptx_compiler() {
  static const Result<Assembler> none =
      Status(StatusCode::unsupported, "this build has no PTX compiler: libnvptxcompiler_static.a was not found");
  return none;
}

}  // namespace fusec::codegen

#endif

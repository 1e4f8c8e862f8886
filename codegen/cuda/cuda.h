// SPDX-License-Identifier: Apache-2.0
// Kernel -> CUDA C++ -> cubin, by NVRTC, which is found at run time.
//
// The text includes nothing. It is compiled without contraction, with IEEE division and square root and with denormals.
//
// NVRTC's own part compiles CUDA C++ to PTX and a cubin. It is thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/artifact/artifact.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen {

// The artifact holds PTX and the cubin, and for each phase the registers, stack and shared memory that the assembler
// reports. The cubin is NVRTC's own, unless the PTX needs a ptxas workaround: then it comes from `assemble`
// (codegen/ptx/ptx.h), and without an assembler there is none. `unsupported`: this build or this machine has no NVRTC.
// compile_failed names a statement that cannot be written, or carries the log of NVRTC or of the assembler.
Result<Artifact> emit_cuda(const ir::Kernel& kernel, const Target& target, const EmitOptions& options);
// `comments`: writes each statement of the kernel as a comment above its lines.
Result<std::string> emit_cuda_text(const ir::Kernel& kernel, const Target& target, bool comments = false);
bool has_nvrtc();
// The versions of the writer, NVRTC and the assemblers; cheap.
std::string cuda_emitter_key();

}  // namespace fusec::codegen

namespace fusec::codegen::cuda {

struct Cubin {
  std::vector<uint8_t> image;
  std::string ptx;
};

// For an architecture such as "sm_90". compile_failed carries NVRTC's log and the lines around the errors, with their
// numbers.
Result<Cubin> compile(const std::string& text, const std::string& architecture);
// The lines of `source` around the first errors that the log of NVRTC tells of, as "kernel.cu(12): error: ...".
std::string source_at_errors(const std::string& source, const std::string& log);
// "13.0", or "none".
std::string nvrtc_version();

}  // namespace fusec::codegen::cuda

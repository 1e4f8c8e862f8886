// SPDX-License-Identifier: Apache-2.0
// Kernel -> CUDA C++ -> cubin, by NVRTC, which is found at run time.
//
// The text includes nothing. It is compiled without contraction, with IEEE division and square root and with denormals.
#pragma once

#include <string>

#include "codegen/emit.h"

namespace fusec::codegen {

// The artifact holds PTX and the cubin, and for each phase what the assembler says of registers, stack and shared
// memory. The cubin is NVRTC's, which assembles a program as a whole, unless its PTX must be written in another way
// (codegen/ptx/workarounds.h): then nvJitLink's, or without that none. `unsupported`: this build or this machine has no
// NVRTC. compile_failed: a statement that cannot be written, named, or the log of NVRTC or nvJitLink.
Result<Artifact> emit_cuda(const ir::Kernel& kernel, const Target& target, const EmitOptions& options);
// `comments`: each statement of the kernel stands above its lines.
Result<std::string> emit_cuda_text(const ir::Kernel& kernel, const Target& target, bool comments = false);
bool has_nvrtc();
// The versions of the writer, NVRTC and nvJitLink; cheap.
std::string cuda_emitter_key();

}  // namespace fusec::codegen

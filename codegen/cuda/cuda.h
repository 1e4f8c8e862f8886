// SPDX-License-Identifier: Apache-2.0
// Kernel -> CUDA C++ -> cubin, by NVRTC, which is found at run time.
//
// The text includes nothing. It is compiled without contraction, with IEEE division and square root and with denormals.
#pragma once

#include <string>

#include "codegen/artifact/artifact.h"
#include "codegen/artifact/emit_options.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen {

// The artifact holds PTX and the cubin, and for each phase the registers, stack and shared memory that the assembler
// reports. The cubin is NVRTC's own, unless the PTX needs a ptxas workaround (codegen/ptx/workarounds.h): then
// nvJitLink assembles it, and without nvJitLink there is no cubin. `unsupported`: this build or this machine has no
// NVRTC. compile_failed names a statement that cannot be written, or carries the log of NVRTC or nvJitLink.
Result<Artifact> emit_cuda(const ir::Kernel& kernel, const Target& target, const EmitOptions& options);
// `comments`: writes each statement of the kernel as a comment above its lines.
Result<std::string> emit_cuda_text(const ir::Kernel& kernel, const Target& target, bool comments = false);
bool has_nvrtc();
// The versions of the writer, NVRTC and nvJitLink; cheap.
std::string cuda_emitter_key();

}  // namespace fusec::codegen

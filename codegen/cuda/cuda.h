// SPDX-License-Identifier: Apache-2.0
// Kernel -> CUDA C++ -> cubin, by NVRTC, which is found at run time.
//
// The text includes nothing. It is compiled without contraction, with IEEE division and square root and with denormals.
#pragma once

#include <string>

#include "codegen/emit.h"

namespace fusec::codegen {

// The artifact holds the cubin and the PTX that it was assembled from, which NVRTC keeps at no cost, and for each phase
// what ptxas says of registers, stack and shared memory. `unsupported`: this build or this machine has no NVRTC.
// compile_failed: a statement that cannot be written, named, or NVRTC's log.
Result<Artifact> emit_cuda(const ir::Kernel& kernel, const Target& target, const EmitOptions& options);
// `comments`: each statement of the kernel stands above its lines.
Result<std::string> emit_cuda_text(const ir::Kernel& kernel, const Target& target, bool comments = false);
bool has_nvrtc();
// The writer's version and NVRTC's; cheap.
std::string cuda_emitter_key();

}  // namespace fusec::codegen

// SPDX-License-Identifier: Apache-2.0
// Kernel -> LLVM IR -> PTX -> cubin, by LLVM's NVPTX backend and the assembler that is found at run time.
#pragma once

#include <string>

#include "codegen/artifact/artifact.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen {

// The artifact holds the cubin and its PTX, and for each phase the registers, stack and shared memory that ptxas
// reports. Without an assembler (codegen/ptx/ptx.h) it holds only the PTX, for the driver. compile_failed names a
// statement that cannot be written, or carries the assembler's log.
Result<Artifact> emit_nvptx(const ir::Kernel& kernel, const Target& target, const EmitOptions& options);
// lines: with debug locations, as of EmitOptions.
Result<std::string> emit_nvptx_text(const ir::Kernel& kernel, const Target& target, bool lines);
// Behind the passes, as code generation takes it.
Result<std::string> emit_nvptx_optimized(const ir::Kernel& kernel, const Target& target, bool lines);
// Only the PTX.
Result<std::string> emit_nvptx_ptx(const ir::Kernel& kernel, const Target& target);
// The versions of the writer, of LLVM and of the assemblers; cheap.
std::string nvptx_emitter_key();

}  // namespace fusec::codegen

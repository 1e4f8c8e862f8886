// SPDX-License-Identifier: Apache-2.0
// The host emitter: Kernel -> LLVM IR -> Artifact.
#pragma once

#include <string>

#include "codegen/artifact/artifact.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen {

// Part of the artifact key: the versions of this writer and of LLVM.
std::string host_emitter_key();
Result<Artifact> emit_host(const ir::Kernel& kernel, const Target& target, const EmitOptions& options);
// lines: with debug locations, as of EmitOptions.
Result<std::string> emit_host_text(const ir::Kernel& kernel, const Target& target, bool lines);
// The assembly of the artifact's code, as the code generator prints it: with its own labels, and its notes on spills.
Result<std::string> emit_host_assembly(const ir::Kernel& kernel, const Target& target, bool lines);

}  // namespace fusec::codegen

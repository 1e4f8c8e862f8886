// SPDX-License-Identifier: Apache-2.0
// Emits kernels as the engine does: a GPU's in the lowered form.
#pragma once

#include <string>

#include "codegen/emit.h"
#include "compiler/lower/gpu/gpu.h"

namespace fusec::codegen_test {

inline Result<codegen::Artifact> emit(const ir::Kernel& kernel, const Target& target,
                                      const codegen::EmitOptions& options = {}) {
  FUSEC_ASSIGN(const ir::Kernel lowered, compiler::lower_for_writer(kernel, target));
  return codegen::emit(lowered, target, options);
}

inline Result<std::string> emit_text(const ir::Kernel& kernel, const Target& target, Codegen codegen) {
  FUSEC_ASSIGN(const ir::Kernel lowered, compiler::lower_for_writer(kernel, target));
  return codegen::emit_text(lowered, target, codegen);
}

}  // namespace fusec::codegen_test

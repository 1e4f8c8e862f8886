// SPDX-License-Identifier: Apache-2.0
// emit: Kernel -> Artifact. The writers only print: every decision is already in the kernel.
#pragma once

#include <functional>
#include <string>

#include "codegen/artifact.h"
#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "ir/kernel.h"

namespace fusec::codegen {

struct EmitOptions {
  bool keep_text = false;
  Codegen codegen = Codegen::automatic;  // of a GPU target
  std::function<void(const std::string&)> on_warning = {};  // of faults that do not fail the call; unset: silent
};

// The key of what emit would yield: canonical kernel text, target, emitter and compiler versions. Cheap: no code is made.
std::string artifact_key(const ir::Kernel& kernel, const Target& target, Codegen codegen = Codegen::automatic);
// Thread-safe; every call has its own LLVM context. compile_failed carries the compiler's message. Codegen::automatic takes
// NVRTC where it is found, else LLVM, and LLVM too, with a warning, where NVRTC does not take a kernel; `unsupported` where
// there is neither, or not the one that is asked for.
Result<Artifact> emit(const ir::Kernel& kernel, const Target& target, const EmitOptions& options = {});
// The writer's text alone: LLVM IR, or CUDA C++. Needs no library of CUDA.
Result<std::string> emit_text(const ir::Kernel& kernel, const Target& target, Codegen codegen = Codegen::automatic);
// The PTX that LLVM makes for a GPU.
Result<std::string> emit_ptx(const ir::Kernel& kernel, const Target& target);

}  // namespace fusec::codegen

// SPDX-License-Identifier: Apache-2.0
// emit: Kernel -> Artifact. The writers only print: every decision is already in the kernel.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/artifact/artifact.h"
#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen {

struct EmitOptions {
  bool keep_text = false;
  Codegen codegen = Codegen::automatic;                     // of a GPU target
  std::function<void(const std::string&)> on_warning = {};  // of faults that do not fail the call; unset: silent
};

// Those that `codegen` allows for the target, in the order in which they are tried: Codegen::automatic is NVRTC where
// it is found, then LLVM.
std::vector<Codegen> emitters(const Target& target, Codegen codegen);

// make(emitter) of the first of emitters(target, options.codegen) that takes the kernel, with a warning where it is not
// the first of all. Where none takes it: what the first says.
template <class T, class Make>
Result<T> by_first_emitter(const ir::Kernel& kernel, const Target& target, const EmitOptions& options,
                           const Make& make) {
  Status refused;
  for (const Codegen emitter : emitters(target, options.codegen)) {
    Result<T> made = make(emitter);
    if (made.ok()) {
      if (!refused.ok() && options.on_warning) {
        options.on_warning("kernel '" + kernel.name + "' is made by LLVM, for " + refused.str());
      }
      return made;
    }
    if (refused.ok()) refused = made.status();
  }
  return refused;
}

// The key of what emit would yield by the first emitter: canonical kernel text, target, emitter and compiler versions.
// Cheap: no code is made.
std::string artifact_key(const ir::Kernel& kernel, const Target& target, Codegen codegen = Codegen::automatic);
// Thread-safe; every call has its own LLVM context. The artifact's key names the emitter that made it. compile_failed
// carries the compiler's message; `unsupported` where there is no emitter, or not the one that is asked for.
Result<Artifact> emit(const ir::Kernel& kernel, const Target& target, const EmitOptions& options = {});
// The writer's text alone: LLVM IR, or CUDA C++. Needs no library of CUDA.
Result<std::string> emit_text(const ir::Kernel& kernel, const Target& target, Codegen codegen = Codegen::automatic);
// The PTX that LLVM makes for a GPU.
Result<std::string> emit_ptx(const ir::Kernel& kernel, const Target& target);

}  // namespace fusec::codegen

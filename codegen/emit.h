// SPDX-License-Identifier: Apache-2.0
// emit: Kernel -> Artifact. The writers only print: every decision is already in the kernel.
#pragma once

#include <string>
#include <vector>

#include "codegen/artifact/artifact.h"
#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen {

// The emitters that `codegen` allows for the target, in the order in which they are tried. Codegen::automatic tries
// LLVM, then NVRTC where it is found; NVRTC first where nothing assembles PTX.
std::vector<Codegen> emitters(const Target& target, Codegen codegen);
// Those for the kernel. Codegen::automatic tries NVRTC first for products of tiles: few of LLVM's take up to 4 %
// longer.
std::vector<Codegen> emitters(const ir::Kernel& kernel, const Target& target, Codegen codegen);

// The target without what no emitter at hand writes: tile products where it has neither LLVM nor NVRTC.
Target writable_target(Target target, Codegen codegen);

// Whether nothing makes machine code for the target in this build, so that kernels are evaluated
// (codegen/artifact/evaluated.h).
bool evaluates_kernels(const Target& target);

// Calls make(emitter) for each of emitters(kernel, target, options.codegen) until one accepts the kernel, and warns if
// that is not the first. If none accepts it, returns the status of the first.
template <class T, class Make>
Result<T> by_first_emitter(const ir::Kernel& kernel, const Target& target, const EmitOptions& options,
                           const Make& make) {
  Status refused;
  for (const Codegen emitter : emitters(kernel, target, options.codegen)) {
    Result<T> made = make(emitter);
    if (made.ok()) {
      if (!refused.ok() && options.on_warning) {
        options.on_warning("kernel '" + kernel.name + "' is made by " + (emitter == Codegen::llvm ? "LLVM" : "NVRTC") +
                           ", for " + refused.str());
      }
      return made;
    }
    if (refused.ok()) refused = made.status();
  }
  return refused;
}

// The key of the artifact that emit would produce with the first emitter: canonical kernel text, target, emitter and
// compiler versions. It is cheap: no code is made.
std::string artifact_key(const ir::Kernel& kernel, const Target& target, Codegen codegen = Codegen::automatic);
// The part of the key that is the same for all kernels: the first emitter and the versions of what it is made of.
std::string emitter_version(const Target& target, Codegen codegen = Codegen::automatic);
// The code of one emitter, one of emitters(target, ...); options.codegen is not read. Thread-safe; every call has its
// own LLVM context. The artifact's key names the emitter that made it. compile_failed carries the compiler's message;
// `unsupported` means that this build or this machine lacks the emitter.
Result<Artifact> emit_with(Codegen emitter, const ir::Kernel& kernel, const Target& target,
                           const EmitOptions& options = {});
// The same by the first emitter that takes the kernel.
Result<Artifact> emit(const ir::Kernel& kernel, const Target& target, const EmitOptions& options = {});
// Only the writer's text: LLVM IR for a CPU (where kernels are evaluated, the kernel) and for Codegen::llvm, else CUDA
// C++. Needs no CUDA library. lines, here and below: EmitOptions::lines; CUDA C++ has the statements as comments.
Result<std::string> emit_text(const ir::Kernel& kernel, const Target& target, Codegen codegen = Codegen::automatic,
                              bool lines = false);
// LLVM IR of a GPU's kernel behind the passes that run over it, as code generation takes it.
Result<std::string> emit_optimized_text(const ir::Kernel& kernel, const Target& target, bool lines = false);
// x86 assembly of the code that emit makes for a CPU. `unsupported`: this build has no LLVM.
Result<std::string> emit_assembly(const ir::Kernel& kernel, const Target& target, bool lines = false);
// The PTX that LLVM generates for a GPU target.
Result<std::string> emit_ptx(const ir::Kernel& kernel, const Target& target);

}  // namespace fusec::codegen

// SPDX-License-Identifier: Apache-2.0
// The emit stage: chooses an emitter for a kernel (host LLVM, NVRTC or LLVM's NVPTX), computes the artifact's key and
// runs the emitter. Builds without LLVM get stubs: of a GPU's, they answer `unsupported`; a CPU's kernels are left to
// the evaluator.

#include "codegen/emit.h"

#include "codegen/artifact/evaluated.h"
#include "codegen/cuda/cuda.h"
#include "codegen/ptx/ptx.h"
#include "ir/support/check.h"
#include "ir/text/kernel_text.h"
#if FUSEC_WITH_LLVM
#include "codegen/llvm/host.h"
#include "codegen/llvm/nvptx/nvptx.h"
#endif

namespace fusec::codegen {
namespace {

#if FUSEC_WITH_LLVM
constexpr bool kHasLlvm = true;
#else
constexpr bool kHasLlvm = false;
Status no_llvm(const Target& target) {
  return Status(StatusCode::unsupported, "codegen llvm for target '" + target.name + "': this build has no LLVM");
}
std::string host_emitter_key() { return "evaluator"; }
std::string nvptx_emitter_key() { return "none"; }
Result<Artifact> emit_host(const ir::Kernel& kernel, const Target&, const EmitOptions&) {
  return make_evaluated(kernel);
}
Result<std::string> emit_host_text(const ir::Kernel& kernel, const Target&, bool) { return ir::print(kernel); }
Result<Artifact> emit_nvptx(const ir::Kernel&, const Target& target, const EmitOptions&) { return no_llvm(target); }
Result<std::string> emit_host_assembly(const ir::Kernel&, const Target& target, bool) { return no_llvm(target); }
Result<std::string> emit_nvptx_text(const ir::Kernel&, const Target& target, bool) { return no_llvm(target); }
Result<std::string> emit_nvptx_optimized(const ir::Kernel&, const Target& target, bool) { return no_llvm(target); }
Result<std::string> emit_nvptx_ptx(const ir::Kernel&, const Target& target) { return no_llvm(target); }
#endif

std::string emitter_key(const Target& target, Codegen emitter) {
  if (target.kind == TargetKind::cpu) return host_emitter_key();
  return emitter == Codegen::llvm ? nvptx_emitter_key() + " codegen=llvm" : cuda_emitter_key() + " codegen=nvrtc";
}

// The status of NVRTC says what was looked for; this adds that LLVM is missing.
Status neither(const Status& nvrtc) {
  return Status(StatusCode::unsupported, "nothing makes code for this GPU: codegen nvrtc: " + nvrtc.message() +
                                             "; codegen llvm: this build has no LLVM");
}

Result<Artifact> emit_by(Codegen emitter, const ir::Kernel& kernel, const Target& target, const EmitOptions& options) {
  if (target.kind == TargetKind::cpu) return emit_host(kernel, target, options);
  if (emitter == Codegen::llvm) return emit_nvptx(kernel, target, options);
  Result<Artifact> artifact = emit_cuda(kernel, target, options);
  if (!kHasLlvm && artifact.status().code() == StatusCode::unsupported) return neither(artifact.status());
  return artifact;
}

// Broken invariants and hostile extents surface as exceptions inside; none may leave emit.
template <class F>
auto guarded(const F& f) -> decltype(f()) {
  return ir::guarded(f, {.overflow = StatusCode::compile_failed});
}

// What code with products of tiles depends on beside codegen_key: its blocks and their stages.
std::string tiles_key(const ir::Kernel& kernel, const Target& target) {
  if (!ir::has_tile_product(kernel.body)) return "";
  return " blocks=" + std::to_string(target.sm_count) + " shared=" + std::to_string(target.shared_bytes_per_block);
}

}  // namespace

std::vector<Codegen> emitters(const Target& target, Codegen codegen) {
  if (target.kind == TargetKind::cpu) return {Codegen::llvm};
  if (codegen != Codegen::automatic) return {codegen};
  if (!kHasLlvm) return {Codegen::nvrtc};
  if (!has_nvrtc()) return {Codegen::llvm};
  // Without an assembler, only NVRTC makes machine code.
  return has_assembler() ? std::vector{Codegen::llvm, Codegen::nvrtc} : std::vector{Codegen::nvrtc, Codegen::llvm};
}

std::vector<Codegen> emitters(const ir::Kernel& kernel, const Target& target, Codegen codegen) {
  const bool left_to_nvrtc = codegen == Codegen::automatic && has_nvrtc() && ir::has_tile_product(kernel.body);
  return left_to_nvrtc ? std::vector{Codegen::nvrtc, Codegen::llvm} : emitters(target, codegen);
}

Target writable_target(Target target, Codegen codegen) {
  target.has_tile_products &= codegen == Codegen::nvrtc ? has_nvrtc() : kHasLlvm || has_nvrtc();
  return target;
}

std::string artifact_key(const ir::Kernel& kernel, const Target& target, Codegen codegen) {
  // The name does not affect the code. Extents keep their names, because the artifact's sizes are expressions in them.
  ir::Kernel unnamed = kernel;
  unnamed.name = "kernel";
  return emitter_key(target, emitters(kernel, target, codegen).front()) + "\n" + codegen_key(target) +
         tiles_key(kernel, target) + "\n" + ir::print(unnamed);
}

bool evaluates_kernels(const Target& target) { return !kHasLlvm && target.kind == TargetKind::cpu; }

std::string emitter_version(const Target& target, Codegen codegen) {
  return emitter_key(target, emitters(target, codegen).front());
}

Result<Artifact> emit_with(Codegen emitter, const ir::Kernel& kernel, const Target& target,
                           const EmitOptions& options) {
  return guarded([&]() -> Result<Artifact> {
    FUSEC_ASSIGN(Artifact artifact, emit_by(emitter, kernel, target, options));
    artifact.key = artifact_key(kernel, target, emitter);
    return artifact;
  });
}

Result<Artifact> emit(const ir::Kernel& kernel, const Target& target, const EmitOptions& options) {
  return guarded([&] {
    return by_first_emitter<Artifact>(kernel, target, options,
                                      [&](Codegen emitter) { return emit_with(emitter, kernel, target, options); });
  });
}

Result<std::string> emit_text(const ir::Kernel& kernel, const Target& target, Codegen codegen, bool lines) {
  return guarded([&] {
    if (target.kind == TargetKind::cpu) return emit_host_text(kernel, target, lines);
    return codegen == Codegen::llvm ? emit_nvptx_text(kernel, target, lines) : emit_cuda_text(kernel, target, true);
  });
}

Result<std::string> emit_optimized_text(const ir::Kernel& kernel, const Target& target, bool lines) {
  return guarded([&] { return emit_nvptx_optimized(kernel, target, lines); });
}

Result<std::string> emit_assembly(const ir::Kernel& kernel, const Target& target, bool lines) {
  return guarded([&] { return emit_host_assembly(kernel, target, lines); });
}

Result<std::string> emit_ptx(const ir::Kernel& kernel, const Target& target) {
  return guarded([&] { return emit_nvptx_ptx(kernel, target); });
}

}  // namespace fusec::codegen

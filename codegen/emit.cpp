// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit.h"

#include <exception>

#include "codegen/cuda/cuda.h"
#include "ir/text/kernel_text.h"
#if FUSEC_WITH_LLVM
#include "codegen/llvm/host.h"
#endif

namespace fusec::codegen {
namespace {

#if FUSEC_WITH_LLVM
constexpr bool kHasHost = true;
#else
constexpr bool kHasHost = false;
std::string host_emitter_key() { return "none"; }
Result<Artifact> emit_host(const ir::Kernel&, const Target&, const EmitOptions&) { return Artifact(); }
Result<std::string> emit_host_text(const ir::Kernel&, const Target&) { return std::string(); }
#endif

Status can_write(const Target& target, Codegen codegen) {
  if (target.kind == TargetKind::cuda && codegen == Codegen::llvm) {
    return Status(StatusCode::unsupported, "codegen llvm for target '" + target.name + "': not built yet; use nvrtc");
  }
  if (target.kind == TargetKind::cuda || kHasHost) return {};
  return Status(StatusCode::unsupported, "this build has no emitter for target '" + target.name + "'");
}

const char* name_of(Codegen codegen) { return codegen == Codegen::llvm ? "llvm" : "nvrtc"; }

std::string emitter_key(const Target& target, Codegen codegen) {
  if (target.kind == TargetKind::cpu) return host_emitter_key();
  return cuda_emitter_key() + " codegen=" + name_of(codegen);
}

// Broken invariants and hostile extents surface as exceptions inside; none leaves emit.
template <class F>
auto guarded(const F& f) -> decltype(f()) {
  try {
    return f();
  } catch (const DimOverflow& e) {
    return Status(StatusCode::compile_failed, e.what());
  } catch (const std::exception& e) {
    return Status(StatusCode::internal, e.what());
  }
}

}  // namespace

std::string artifact_key(const ir::Kernel& kernel, const Target& target, Codegen codegen) {
  // The name alone says nothing of the code; extents keep theirs, because the artifact's sizes are in terms of them.
  ir::Kernel unnamed = kernel;
  unnamed.name = "kernel";
  return emitter_key(target, codegen) + "\n" + codegen_key(target) + "\n" + ir::print(unnamed);
}

Result<Artifact> emit(const ir::Kernel& kernel, const Target& target, const EmitOptions& options) {
  FUSEC_TRY(can_write(target, options.codegen));
  return guarded([&]() -> Result<Artifact> {
    const auto& emitter = target.kind == TargetKind::cuda ? emit_cuda : emit_host;
    FUSEC_ASSIGN(Artifact artifact, emitter(kernel, target, options));
    artifact.key = artifact_key(kernel, target, options.codegen);
    return artifact;
  });
}

Result<std::string> emit_text(const ir::Kernel& kernel, const Target& target, Codegen codegen) {
  FUSEC_TRY(can_write(target, codegen));
  return guarded([&] { return target.kind == TargetKind::cuda ? emit_cuda_text(kernel, target, true) : emit_host_text(kernel, target); });
}

}  // namespace fusec::codegen

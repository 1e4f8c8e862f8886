// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit.h"

#include <exception>

#include "ir/text/kernel_text.h"
#if FUSEC_WITH_LLVM
#include "codegen/llvm/host.h"
#endif

namespace fusec::codegen {
namespace {

#if FUSEC_WITH_LLVM
bool writes(const Target& target) { return target.kind == TargetKind::cpu; }
#else
bool writes(const Target&) { return false; }
std::string host_emitter_key() { return "none"; }
Result<Artifact> emit_host(const ir::Kernel&, const Target&, const EmitOptions&) { return Artifact(); }
Result<std::string> emit_host_text(const ir::Kernel&, const Target&) { return std::string(); }
#endif

Status no_writer(const Target& target) {
  return Status(StatusCode::unsupported, "this build has no emitter for target '" + target.name + "'");
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

std::string artifact_key(const ir::Kernel& kernel, const Target& target, Codegen) {
  // The name alone says nothing of the code; extents keep theirs, because the artifact's sizes are in terms of them.
  ir::Kernel unnamed = kernel;
  unnamed.name = "kernel";
  return host_emitter_key() + "\n" + codegen_key(target) + "\n" + ir::print(unnamed);
}

Result<Artifact> emit(const ir::Kernel& kernel, const Target& target, const EmitOptions& options) {
  if (!writes(target)) return no_writer(target);
  return guarded([&]() -> Result<Artifact> {
    FUSEC_ASSIGN(Artifact artifact, emit_host(kernel, target, options));
    artifact.key = artifact_key(kernel, target);
    return artifact;
  });
}

Result<std::string> emit_text(const ir::Kernel& kernel, const Target& target, Codegen) {
  if (!writes(target)) return no_writer(target);
  return guarded([&] { return emit_host_text(kernel, target); });
}

}  // namespace fusec::codegen

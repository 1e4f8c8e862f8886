// SPDX-License-Identifier: Apache-2.0
#include "codegen/llvm/host.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Verifier.h>

#include "codegen/llvm/compile.h"
#include "codegen/llvm/writer.h"

namespace fusec::codegen {
namespace {

// Raised whenever the code written for some kernel changes.
constexpr int kWriterVersion = 3;

struct Written {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> module;
  std::vector<PhaseText> phases;
  std::vector<std::string> externs;
  Dim local_bytes;
};

std::string text_of(const llvm::Module& module) {
  std::string out;
  llvm::raw_string_ostream stream(out);
  module.print(stream, nullptr);
  return out;
}

Status write(const ir::Kernel& kernel, const Target& target, Written& out) {
  FUSEC_ASSIGN(out.machine, target_machine(target));
  out.module = std::make_unique<llvm::Module>("kernel", out.context);
  out.module->setTargetTriple(out.machine->getTargetTriple().str());
  out.module->setDataLayout(out.machine->createDataLayout());
  const Locals locals = plan_locals(kernel);
  out.local_bytes = locals.bytes;
  try {
    out.phases = write_kernel(kernel, locals, target, *out.module, out.externs);
  } catch (const CompileError& e) {
    return Status(StatusCode::compile_failed, e.what());
  }
  return {};
}

}  // namespace

std::string host_emitter_key() { return "host-" + std::to_string(kWriterVersion) + " llvm-" LLVM_VERSION_STRING; }

Result<Artifact> emit_host(const ir::Kernel& kernel, const Target& target, const EmitOptions& options) {
  Written written;
  FUSEC_TRY(write(kernel, target, written));
  Artifact artifact;
  if (options.keep_text) artifact.text = text_of(*written.module);
  FUSEC_ASSIGN(Image image, compile(*written.module, *written.machine));
  for (const PhaseText& phase : written.phases) {
    codegen::ArtifactPhase& made = artifact.phases.emplace_back();
    made.offset = image.functions.at(phase.name);
    made.iterations = phase.iterations;
  }
  artifact.image = std::move(image.bytes);
  artifact.externs = std::move(written.externs);
  artifact.local_bytes = written.local_bytes;
  return artifact;
}

Result<std::string> emit_host_text(const ir::Kernel& kernel, const Target& target) {
  Written written;
  FUSEC_TRY(write(kernel, target, written));
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(*written.module, &stream)) {
    return Status(StatusCode::internal, "the writer made invalid LLVM IR: " + problem);
  }
  return text_of(*written.module);
}

}  // namespace fusec::codegen

// SPDX-License-Identifier: Apache-2.0
// Generates x86-64 machine code from an LLVM module for the host emitter and flattens the object to an image. It
// compiles for the given target, not for the machine it runs on.

#include "codegen/llvm/compile.h"

#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Triple.h>

#include <mutex>

#include "codegen/llvm/contain.h"
#include "ir/support/check.h"

namespace fusec::codegen {
namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

void initialise() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
}

}  // namespace

Result<std::unique_ptr<llvm::TargetMachine>> target_machine(const Target& target) {
  initialise();
  std::string error;
  const llvm::Target* llvm_target = llvm::TargetRegistry::lookupTarget(kTriple, error);
  if (!llvm_target) return Status(StatusCode::compile_failed, "LLVM has no x86-64 target: " + error);
  std::string features;
  for (const std::string& feature : target.features) features += (features.empty() ? "+" : ",+") + feature;
  llvm::TargetOptions options;
  std::unique_ptr<llvm::TargetMachine> machine(
      llvm_target->createTargetMachine(kTriple, target.triple_cpu, features, options, llvm::Reloc::PIC_,
                                       llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, /*JIT=*/true));
  if (!machine) return Status(StatusCode::compile_failed, "LLVM cannot compile for '" + target.triple_cpu + "'");
  return machine;
}

std::string print_to_text(const llvm::Module& module) {
  std::string out;
  llvm::raw_string_ostream stream(out);
  module.print(stream, nullptr);
  return out;
}

Result<Image> compile(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  const bool written = write_file(module, machine, llvm::CodeGenFileType::ObjectFile, stream);
  FUSEC_CHECK(written) << "LLVM writes no objects for its x86-64";
  return flatten(std::string(object.begin(), object.end()));
}

}  // namespace fusec::codegen

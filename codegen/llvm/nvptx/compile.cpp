// SPDX-License-Identifier: Apache-2.0
// Compiles an LLVM module to PTX with the NVPTX backend, during emit: runs a few scalar passes and generates code.
// Needs no GPU. Floating-point contraction is disabled.

#include "codegen/llvm/compile.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/PassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/Scalarizer.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <mutex>

#include "codegen/llvm/nvptx/writer.h"
#include "ir/support/check.h"

namespace fusec::codegen::nvptx {
namespace {

constexpr const char* kGpuTriple = "nvptx64-nvidia-cuda";

void initialise_gpu() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

int known_sm(int sm) {
  int out = 75;
  for (const int known : {75, 80, 86, 87, 89, 90}) {
    if (known <= sm) out = known;
  }
  return out;
}

struct Analyses {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
};

void simplify_with(Analyses& analyses, llvm::Module& module, llvm::TargetMachine& machine) {
  auto& [loops, functions, components, modules] = analyses;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager passes;
  passes.addPass(llvm::GlobalDCEPass());
  llvm::FunctionPassManager scalar;
  scalar.addPass(llvm::ScalarizerPass());
  scalar.addPass(llvm::SROAPass(llvm::SROAOptions::PreserveCFG));
  scalar.addPass(SeparateHeldHalves());
  scalar.addPass(llvm::EarlyCSEPass());
  scalar.addPass(llvm::InstCombinePass());
  scalar.addPass(llvm::SimplifyCFGPass());
  scalar.addPass(llvm::EarlyCSEPass());
  scalar.addPass(llvm::ADCEPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(scalar)));
  passes.run(module, modules);
}

// If LLVM throws, the object that it was working on is leaked (codegen/llvm/compile.h).
void simplify(llvm::Module& module, llvm::TargetMachine& machine) {
  auto analyses = std::make_unique<Analyses>();
  try {
    simplify_with(*analyses, module, machine);
  } catch (...) {
    (void)analyses.release();
    throw;
  }
}

// LLVM's NVPTX backend (19) converts a signed i1 as if it were unsigned: to 1 instead of -1.
void convert_signed_bools_by_choice(llvm::Module& module) {
  for (llvm::Function& function : module) {
    for (llvm::BasicBlock& block : function) {
      for (llvm::Instruction& instruction : llvm::make_early_inc_range(block)) {
        auto* const conversion = llvm::dyn_cast<llvm::SIToFPInst>(&instruction);
        if (conversion == nullptr || !conversion->getOperand(0)->getType()->isIntegerTy(1)) continue;
        llvm::Type* const type = conversion->getType();
        llvm::IRBuilder<> builder(conversion);
        conversion->replaceAllUsesWith(builder.CreateSelect(conversion->getOperand(0), llvm::ConstantFP::get(type, -1),
                                                            llvm::ConstantFP::get(type, 0)));
        conversion->eraseFromParent();
      }
    }
  }
}

// LLVM (19) has no word for the size of clusters: adds the directive to the functions that are marked.
std::string with_clusters(const llvm::Module& module, std::string ptx) {
  const llvm::NamedMDNode* const notes = module.getNamedMetadata("nvvm.annotations");
  for (unsigned i = 0; notes != nullptr && i < notes->getNumOperands(); ++i) {
    const llvm::MDNode& note = *notes->getOperand(i);
    if (llvm::cast<llvm::MDString>(note.getOperand(1))->getString() != kClusterBlocks) continue;
    const auto* function = llvm::mdconst::extract<llvm::Function>(note.getOperand(0));
    const uint64_t blocks = llvm::mdconst::extract<llvm::ConstantInt>(note.getOperand(2))->getZExtValue();
    const std::size_t entry = ptx.find(".entry " + function->getName().str() + "(");
    const std::size_t body = ptx.find("\n{", entry);
    FUSEC_CHECK(entry != std::string::npos && body != std::string::npos) << "a function without PTX";
    ptx.insert(body, "\n.explicitcluster\n.reqnctapercluster " + std::to_string(blocks) + ", 1, 1");
  }
  return ptx;
}

}  // namespace

Result<std::unique_ptr<llvm::TargetMachine>> gpu_machine(const Target& target, bool own_instructions) {
  initialise_gpu();
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(kGpuTriple, error);
  if (!found) return Status(StatusCode::compile_failed, "LLVM has no NVPTX target: " + error);
  const int sm = known_sm(target.sm);
  const std::string cpu = "sm_" + std::to_string(sm) + (own_instructions ? "a" : ""),
                    features = sm >= 90 ? "+ptx81" : "";  // which has mailboxes
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(found->createTargetMachine(
      kGpuTriple, cpu, features, options, std::nullopt, std::nullopt, llvm::CodeGenOptLevel::Default, /*JIT=*/false));
  if (!machine) return Status(StatusCode::compile_failed, "LLVM cannot compile for '" + cpu + "'");
  return machine;
}

void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  simplify(module, machine);
  convert_signed_bools_by_choice(module);
}

Result<std::string> write_ptx(llvm::Module& module, llvm::TargetMachine& machine) {
  optimize(module, machine);
  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream stream(text);
  const bool written = write_file(module, machine, llvm::CodeGenFileType::AssemblyFile, stream);
  FUSEC_CHECK(written) << "LLVM writes no PTX";
  return with_clusters(module, std::string(text.begin(), text.end()));
}

}  // namespace fusec::codegen::nvptx

// SPDX-License-Identifier: Apache-2.0
// Keeps rows of 16-bit values in 16 bits while threads exchange what they computed of them. Without it, LLVM finds that
// a value is widened, or its difference from the mean taken, in front of a barrier and behind it, and holds the 32-bit
// results in between: twice the registers, to save one or two instructions.

#include <llvm/ADT/MapVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Instructions.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "codegen/llvm/nvptx/writer.h"

namespace fusec::codegen::nvptx {
namespace {

using llvm::Instruction;

bool is_exchange(const Instruction& instruction) {
  const auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction);
  return call != nullptr && call->isConvergent();
}

// The value under another name, in front of `at`. LLVM sees no connection between names of different sections, and
// makes one of two equal names of a section.
llvm::Value* renamed(Instruction* value, int section, Instruction* at) {
  llvm::IRBuilder<> b(at);
  llvm::Type* word = b.getInt16Ty();
  const std::string text = "mov.b16 $0, $1; // " + std::to_string(section);
  llvm::Value* name = b.CreateCall(llvm::InlineAsm::get(llvm::FunctionType::get(word, {word}, false), text, "=h,h",
                                                        /*hasSideEffects=*/false),
                                   {b.CreateBitCast(value, word)});
  return b.CreateBitCast(name, value->getType());
}

}  // namespace

llvm::PreservedAnalyses SeparateHeldHalves::run(llvm::Function& function, llvm::FunctionAnalysisManager&) {
  std::map<const Instruction*, int> sections;  // exchanges in front of an instruction, in the order of the text
  std::vector<Instruction*> halves;
  int section = 0;
  for (llvm::BasicBlock& block : function) {
    for (Instruction& instruction : block) {
      sections[&instruction] = section;
      if (instruction.getType()->isIntegerTy(16) || instruction.getType()->isHalfTy()) halves.push_back(&instruction);
      section += is_exchange(instruction) ? 1 : 0;
    }
  }
  if (section == 0) return llvm::PreservedAnalyses::all();
  for (Instruction* value : halves) {
    llvm::MapVector<std::pair<const llvm::BasicBlock*, int>, std::vector<Instruction*>> users;  // in a fixed order
    for (llvm::User* user : value->users()) {
      auto* at = llvm::cast<Instruction>(user);
      if (!llvm::isa<llvm::PHINode>(at) && sections.at(at) != sections.at(value))
        users[{at->getParent(), sections.at(at)}].push_back(at);
    }
    for (auto& [where, together] : users) {
      Instruction* first = together.front();
      for (Instruction* at : together) first = at->comesBefore(first) ? at : first;
      llvm::Value* name = renamed(value, where.second, first);
      for (Instruction* at : together) at->replaceUsesOfWith(value, name);
    }
  }
  llvm::PreservedAnalyses kept;
  kept.preserveSet<llvm::CFGAnalyses>();
  return kept;
}

}  // namespace fusec::codegen::nvptx

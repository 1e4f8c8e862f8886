// SPDX-License-Identifier: Apache-2.0
// Only directives are asked for (.loc), without the sections that a debugger reads.

#include "codegen/llvm/lines.h"

#include <llvm/BinaryFormat/Dwarf.h>
#include <llvm/IR/Module.h>

#include "ir/text/kernel_text.h"

namespace fusec::codegen {

Lines::Lines(const ir::Kernel& kernel, llvm::Module& module)
    : lines_(ir::print_numbered(kernel).lines), builder_(module), file_(builder_.createFile("kernel", "")) {
  module.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  builder_.createCompileUnit(llvm::dwarf::DW_LANG_C, file_, "fusec", /*isOptimized=*/true, "", 0, "",
                             llvm::DICompileUnit::DebugDirectivesOnly);
}

void Lines::open(llvm::Function& function) {
  auto* const type = builder_.createSubroutineType(builder_.getOrCreateTypeArray({}));
  scope_ = builder_.createFunction(file_, function.getName(), "", file_, 1, type, 1, llvm::DINode::FlagZero,
                                   llvm::DISubprogram::SPFlagDefinition);
  function.setSubprogram(scope_);
}

llvm::DebugLoc Lines::at(const ir::Stmt& stmt) const {
  const auto found = lines_.find(&stmt);
  if (found == lines_.end()) return {};
  return llvm::DILocation::get(scope_->getContext(), static_cast<unsigned>(found->second), 0, scope_);
}

}  // namespace fusec::codegen

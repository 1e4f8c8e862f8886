// SPDX-License-Identifier: Apache-2.0
// Debug locations: the line of the kernel's text that an instruction is of. They are for those who read the code; what
// is compiled to run has none.
#pragma once

#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/IRBuilder.h>

#include <map>

#include "codegen/llvm/writer.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen {

class Lines {
 public:
  Lines(const ir::Kernel& kernel, llvm::Module& module);
  // Its instructions may have locations.
  void open(llvm::Function& function);
  // Of an instruction of the statement, in the function that was opened last.
  llvm::DebugLoc at(const ir::Stmt& stmt) const;
  // The module is written.
  void close() { builder_.finalize(); }

 private:
  const std::map<const ir::Stmt*, int> lines_;
  llvm::DIBuilder builder_;
  llvm::DIFile* const file_;
  llvm::DISubprogram* scope_ = nullptr;
};

// While alive, what is written is of the statement.
class LineScope {
 public:
  LineScope(Writer& w, const ir::Stmt& stmt) : w_(w), before_(w.ir.b.getCurrentDebugLocation()) {
    if (w.lines != nullptr) w.ir.b.SetCurrentDebugLocation(w.lines->at(stmt));
  }
  ~LineScope() {
    if (w_.lines != nullptr) w_.ir.b.SetCurrentDebugLocation(before_);
  }
  LineScope(const LineScope&) = delete;

 private:
  Writer& w_;
  const llvm::DebugLoc before_;
};

}  // namespace fusec::codegen

// SPDX-License-Identifier: Apache-2.0
// LLVM module -> machine code as one flat, position-independent image.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "codegen/llvm/flatten.h"
#include "fusec/status.h"
#include "fusec/target.h"

namespace fusec::codegen {

Result<std::unique_ptr<llvm::TargetMachine>> target_machine(const Target& target);
// Runs only code generation: no IR passes, because the writer leaves nothing for them to find.
Result<Image> compile(llvm::Module& module, llvm::TargetMachine& machine);
std::string print_to_text(const llvm::Module& module);

}  // namespace fusec::codegen

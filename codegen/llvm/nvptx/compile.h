// SPDX-License-Identifier: Apache-2.0
// LLVM module -> PTX.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "fusec/status.h"
#include "fusec/target.h"

namespace fusec::codegen::nvptx {

// For an architecture that LLVM does not know yet, the newest before it that it does.
Result<std::unique_ptr<llvm::TargetMachine>> gpu_machine(const Target& target);
// Puts in the functions of libdevice that the module calls. `unsupported`: it calls some, and there is no libdevice.
Status link_libdevice(llvm::Module& module);
// Simplifies, then generates code.
Result<std::string> write_ptx(llvm::Module& module, llvm::TargetMachine& machine);

}  // namespace fusec::codegen::nvptx

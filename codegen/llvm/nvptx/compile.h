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

// Uses the newest architecture that LLVM knows and that is not newer than the target's.
Result<std::unique_ptr<llvm::TargetMachine>> gpu_machine(const Target& target);
// Links the libdevice functions that the module calls. `unsupported`: it calls some, and libdevice is not found.
Status link_libdevice(llvm::Module& module);
// Runs simplifying passes, then code generation.
Result<std::string> write_ptx(llvm::Module& module, llvm::TargetMachine& machine);

}  // namespace fusec::codegen::nvptx

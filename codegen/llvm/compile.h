// SPDX-License-Identifier: Apache-2.0
// LLVM module -> machine code as one flat, position-independent image.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include "fusec/status.h"
#include "fusec/target.h"

namespace fusec::codegen {

// Sections of code and constants, 64-byte aligned, with all relocations between them applied.
struct Image {
  std::vector<uint8_t> bytes;
  std::map<std::string, uint64_t> functions;  // offset by name
};

Result<std::unique_ptr<llvm::TargetMachine>> target_machine(const Target& target);
// Runs code generation only: no general IR passes, the writer leaves nothing for them to find.
Result<Image> compile(llvm::Module& module, llvm::TargetMachine& machine);
// Of an x86-64 ELF object. A symbol that is not defined in it, or another relocation, is an error naming it.
Result<Image> flatten(const std::string& object);

}  // namespace fusec::codegen

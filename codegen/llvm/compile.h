// SPDX-License-Identifier: Apache-2.0
// From an LLVM module to machine code as one flat, position-independent image: code generation, and the way from an ELF
// object to an image. Failed allocations and fatal errors inside LLVM do not end the process.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Support/PrettyStackTrace.h>
#include <llvm/Target/TargetMachine.h>

#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fusec/status.h"
#include "fusec/target.h"

namespace fusec::codegen {

// The code and constant sections, 64-byte aligned, with all relocations between them applied.
struct Image {
  std::vector<uint8_t> bytes;
  std::map<std::string, uint64_t> functions;  // offset in the image by name
};

// `object` must be x86-64. An undefined symbol or an unknown relocation is an error that names it.
Result<Image> flatten(const std::string& object);

Result<std::unique_ptr<llvm::TargetMachine>> target_machine(const Target& target);
// Runs only code generation: no IR passes, because the writer leaves nothing for them to find.
Result<Image> compile(llvm::Module& module, llvm::TargetMachine& machine);
std::string print_to_text(const llvm::Module& module);

// Handles failed allocations and fatal errors inside LLVM, so that they do not end the process.
//
// LLVM is built without exceptions. An exception from operator new passes through its functions without running their
// destructors. Other failures call LLVM's handlers, which abort by default; the handlers installed here throw. In both
// cases the object LLVM was working on is incomplete and its destructor may crash, so it is leaked (about 100 kB).

// Thrown where LLVM calls report_fatal_error.
struct LlvmFatal {
  char reason[256];
};

// Installs the handlers, once.
void install_llvm_handlers();

// LLVM's passes register themselves during the first compile, under a lock that an exception would leave locked for
// every later compile. So until a first compile has ended, this checks that there is enough memory for one and throws
// std::bad_alloc if there is not.
void expect_room_for_first_compile();
void first_compile_ended();

// Calls work(state) with a new State. The state is destroyed afterwards, unless LLVM threw; then it is leaked.
template <class State, class Work>
auto contained(const Work& work) -> std::invoke_result_t<const Work&, State&> {
  install_llvm_handlers();
  expect_room_for_first_compile();
  const void* const stack = llvm::SavePrettyStackState();
  auto state = std::make_unique<State>();
  try {
    auto result = work(*state);
    first_compile_ended();
    return result;
  } catch (const std::bad_alloc&) {
    (void)state.release();
    llvm::RestorePrettyStackState(stack);
    throw;
  } catch (const LlvmFatal& fatal) {
    (void)state.release();
    llvm::RestorePrettyStackState(stack);
    return Status(StatusCode::compile_failed, std::string("LLVM gave up: ") + fatal.reason);
  }
}

// Runs code generation. Returns false if the machine cannot write such files. If LLVM throws, its passes are leaked.
bool write_file(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType type,
                llvm::raw_pwrite_stream& stream);

}  // namespace fusec::codegen

// SPDX-License-Identifier: Apache-2.0
// Handles failed allocations and fatal errors inside LLVM, so that they do not end the process.
//
// LLVM is built without exceptions. An exception from operator new passes through its functions without running their
// destructors. Other failures call LLVM's handlers, which abort by default; the handlers installed here throw. In both
// cases the object LLVM was working on is incomplete and its destructor may crash, so it is leaked (about 100 kB).
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Support/PrettyStackTrace.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "fusec/status.h"

namespace fusec::codegen {

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

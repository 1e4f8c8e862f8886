// SPDX-License-Identifier: Apache-2.0
// What LLVM does when an allocation fails inside it, or when it gives up, and how that is kept from ending the process.
//
// LLVM is built without exceptions. An exception of operator new passes through its functions without running their
// destructors, and what does not come from operator new calls LLVM's handlers, which by default abort. Ours throw. What
// LLVM was working on is half made then, and its destructors may crash over it: it is leaked, some 100 kB.
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

// LLVM's passes register themselves in the first compile, under a lock that an exception would leave locked for every
// compile after it. So until one has ended there must be room for what one takes: std::bad_alloc where there is none.
void expect_room_for_first_compile();
void first_compile_ended();

// work(state) with a State of its own, which lives in LLVM's memory: destroyed afterwards unless LLVM broke off.
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

// Runs code generation; false: the machine writes no such files. When LLVM breaks off, its passes are leaked.
bool write_file(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType type,
                llvm::raw_pwrite_stream& stream);

}  // namespace fusec::codegen

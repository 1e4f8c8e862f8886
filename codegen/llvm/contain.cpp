// SPDX-License-Identifier: Apache-2.0
// Installs LLVM error handlers that throw instead of aborting, and runs code generation so that a failure leaves the
// process usable. Used by both LLVM emitters.

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/Support/ErrorHandling.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "codegen/llvm/compile.h"
#include "ir/support/memory.h"

namespace fusec::codegen {
namespace {

[[noreturn]] void out_of_memory(void*, const char*, bool) { throw std::bad_alloc(); }

[[noreturn]] void give_up(void*, const char* reason, bool) {
  LlvmFatal fatal{};
  std::strncpy(fatal.reason, reason, sizeof(fatal.reason) - 1);
  std::replace(fatal.reason, fatal.reason + std::strlen(fatal.reason), '\n', ' ');
  throw fatal;
}

}  // namespace

void install_llvm_handlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::install_bad_alloc_error_handler(out_of_memory);
    llvm::install_fatal_error_handler(give_up);
  });
}

namespace {
std::atomic<bool> compiled_before{false};
}

void expect_room_for_first_compile() {
  constexpr std::size_t kRoom = std::size_t{32} << 20;
  if (compiled_before.load(std::memory_order_relaxed)) return;
  void* const room = ir::allocate_host(kRoom);
  if (room == nullptr) throw std::bad_alloc();
  std::free(room);
}

void first_compile_ended() { compiled_before.store(true, std::memory_order_relaxed); }

bool write_file(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType type,
                llvm::raw_pwrite_stream& stream) {
  auto passes = std::make_unique<llvm::legacy::PassManager>();
  try {
    if (machine.addPassesToEmitFile(*passes, stream, nullptr, type, /*DisableVerify=*/true)) return false;
    passes->run(module);
    return true;
  } catch (...) {
    (void)passes.release();
    throw;
  }
}

}  // namespace fusec::codegen

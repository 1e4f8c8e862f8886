// SPDX-License-Identifier: Apache-2.0
#include "codegen/llvm/contain.h"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/Support/ErrorHandling.h>

#include <algorithm>
#include <cstring>
#include <mutex>

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

// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit.h"
#include "ir/text/kernel_text.h"
#include "tests/text/commands.h"

#if FUSEC_WITH_LLVM
namespace fusec::text_test {

Result<std::string> run_emit(const std::string& input, const std::string& args) {
  const std::size_t space = args.find(' ');
  if (args.substr(0, space) != "llvm" || space == std::string::npos) {
    return Status(StatusCode::invalid_argument, "emit takes 'llvm' and a target, not '" + args + "'");
  }
  FUSEC_ASSIGN(const Target target, named_target(args.substr(space + 1)));
  FUSEC_ASSIGN(const ir::Kernel kernel, ir::parse_kernel(input));
  return codegen::emit_text(kernel, target);
}

}  // namespace fusec::text_test
#endif

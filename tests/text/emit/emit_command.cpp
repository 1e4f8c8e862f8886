// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit.h"
#include "compiler/lower/gpu/gpu.h"
#include "ir/text/kernel_text.h"
#include "tests/text/commands.h"

namespace fusec::text_test {

namespace {

Result<std::string> emit(const std::string& input, const std::string& args) {
  const std::size_t space = args.find(' ');
  const std::string writer = args.substr(0, space);
  if ((writer != "llvm" && writer != "cuda" && writer != "ptx") || space == std::string::npos) {
    return Status(StatusCode::invalid_argument, "emit takes 'llvm', 'cuda' or 'ptx' and a target, not '" + args + "'");
  }
  FUSEC_ASSIGN(const Target target, named_target(args.substr(space + 1)));
  FUSEC_ASSIGN(const ir::Kernel parsed, ir::parse_kernel(input));
  FUSEC_ASSIGN(const ir::Kernel kernel, compiler::lower_for_writer(parsed, target));
  if (writer == "ptx") return codegen::emit_ptx(kernel, target);
  return codegen::emit_text(kernel, target, writer == "cuda" ? Codegen::nvrtc : Codegen::llvm);
}

}  // namespace

// "error" before the writer: what it objects to is the output.
Result<std::string> run_emit(const std::string& input, const std::string& args) {
  constexpr std::string_view kError = "error ";
  if (!args.starts_with(kError)) return emit(input, args);
  const Result<std::string> text = emit(input, args.substr(kError.size()));
  if (text.ok()) return Status(StatusCode::internal, "it was emitted:\n" + *text);
  return text.status().str() + "\n";
}

}  // namespace fusec::text_test

// SPDX-License-Identifier: Apache-2.0
// The code of a generated kernel in one of the forms that it takes on its way to the machine, with the figures of its
// parts, for `fusec emit --as`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "ir/kernel/kernel.h"
#include "runtime/tool/io/output.h"

namespace fusec::tool {

enum class CodeForm : uint8_t { cuda, llvm, ptx, sass, assembly };

struct CodeRequest {
  CodeForm form = CodeForm::llvm;
  Codegen codegen = Codegen::automatic;
  bool optimized = false;  // LLVM IR of a GPU's kernel behind the passes
  bool lines = false;      // the kernel's lines are comments in the code
};

// One function: a phase of the kernel.
struct CodePart {
  std::string name;
  int64_t instructions = 0;
  int64_t local_bytes = 0;  // GPU: of a thread, spills and arrays. CPU: that spills write
  int vector_bytes = 0;     // CPU: of the widest register that is used
  // GPU
  int threads = 0, registers = 0;
  int64_t shared_bytes = 0;  // static and dynamic, of a block
  int blocks_per_sm = 0;
  std::string bound;  // what bounds these blocks
};

struct KernelCode {
  std::string text, made_by;
  std::vector<CodePart> parts;
  std::string no_parts;  // why there are none, where the text has been made
};

// invalid_argument: the target, or Options::codegen, has no such form; says those that there are.
Result<CodeRequest> parse_code_request(const std::string& form, bool optimized, const Target& target, Codegen codegen);
// `lowered`: the kernel as the writers take it.
Result<KernelCode> make_code(const ir::Kernel& lowered, const Target& target, const CodeRequest& request);
// The figures of a part in a line.
std::string part_text(const CodePart& part);
// What begins a comment.
const char* comment_of(CodeForm form);
// Lines of comments in the form's own notation, then the text.
std::string commented(const KernelCode& code, const std::string& title, CodeForm form);
Json make_json(const KernelCode& code);
Json make_json(const CodePart& part);

}  // namespace fusec::tool

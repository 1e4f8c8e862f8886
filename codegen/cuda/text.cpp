// SPDX-License-Identifier: Apache-2.0
// Builds the text of CUDA C++ functions: indented lines, comments, parenthesized operands and joined lists. It knows
// nothing of kernels.

#include <cctype>

#include "codegen/cuda/expression.h"

namespace fusec::codegen::cuda {

void Text::line(const std::string& s) { out_ += std::string(static_cast<std::size_t>(2 * depth_), ' ') + s + "\n"; }

void Text::open(const std::string& head) {
  line(head + (head.empty() || head.back() == ' ' ? "{" : " {"));
  ++depth_;
}

void Text::close() {
  --depth_;
  line("}");
}

void Text::comment(const std::string& s) {
  std::string safe = s;
  for (char& c : safe) {
    if (!std::isprint(static_cast<unsigned char>(c)) || c == '\\') c = '?';  // a backslash would continue the line
  }
  line("// " + safe);
}

std::string operand(const std::string& s) {
  int depth = 0;
  for (std::size_t i = 0; i < s.size(); ++i) {
    const char c = s[i];
    const bool opens = c == '(' || c == '[';
    if (opens && depth == 0 && i == 0) return "(" + s + ")";  // a cast, or parentheses that may not match each other
    depth += opens;
    depth -= c == ')' || c == ']';
    const bool part_of_name =
        std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == ')' || c == ']' || opens;
    if (depth == 0 && !part_of_name) return "(" + s + ")";
  }
  return s;
}

std::string joined(const std::vector<std::string>& parts, const std::string& between) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : between) + part;
  return out;
}

}  // namespace fusec::codegen::cuda

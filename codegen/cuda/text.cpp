// SPDX-License-Identifier: Apache-2.0
// Builds the text of CUDA C++ functions: indented lines, comments, parenthesized operands and joined lists, and shows
// the lines of a text that NVRTC refuses. It knows nothing of kernels.

#include <fmt/format.h>

#include <cctype>
#include <cstdlib>
#include <set>
#include <sstream>

#include "codegen/cuda/cuda.h"
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

namespace {

// The numbers of the lines of errors, the first `most` of them.
std::set<int> error_lines(const std::string& log, std::size_t most) {
  constexpr std::string_view kFile = "kernel.cu(", kError = "): error";
  std::set<int> out;
  for (std::size_t at = log.find(kFile); at != std::string::npos && out.size() < most; at = log.find(kFile, at)) {
    at += kFile.size();
    char* end = nullptr;
    const auto number = static_cast<int>(std::strtol(log.c_str() + at, &end, 10));
    if (std::string_view(end).starts_with(kError)) out.insert(number);
  }
  return out;
}

}  // namespace

std::string source_at_errors(const std::string& source, const std::string& log) {
  constexpr int kAround = 3;
  const std::set<int> errors = error_lines(log, 3);
  std::istringstream lines(source);
  std::string line, out;
  int last = 0;
  for (int number = 1; std::getline(lines, line); ++number) {
    const auto near = errors.lower_bound(number - kAround);
    if (near == errors.end() || *near > number + kAround) continue;
    if (last != 0 && number > last + 1) out += "   ...\n";
    out += fmt::format("{} {:4} | {}\n", errors.contains(number) ? '>' : ' ', number, line);
    last = number;
  }
  return out;
}

}  // namespace fusec::codegen::cuda

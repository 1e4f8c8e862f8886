// SPDX-License-Identifier: Apache-2.0
#include "runtime/tool/code_lines.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <sstream>
#include <vector>

namespace fusec::tool {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out.push_back(std::move(line));
  return out;
}

// The number behind `before` in the line; -1: it has none.
int number_behind(const std::string& line, std::string_view before) {
  const std::size_t at = line.find(before);
  return at == std::string::npos ? -1 : std::atoi(line.c_str() + at + before.size());
}

// What a line of code says of the kernel's line.
struct Mark {
  int line = -1;             // -1: nothing; 0: what follows is of no line
  bool is_code = false;      // the line itself is printed, as `text`, behind the comment
  bool is_left_out = false;  // it says nothing else
  std::string text = {};
};

constexpr std::string_view kLocation = ", !dbg !";

// LLVM IR: "  %3 = fadd float %1, %2, !dbg !12", and behind the functions "!12 = !DILocation(line: 3, ...)".
class IrMarks {
 public:
  explicit IrMarks(const std::vector<std::string>& code) {
    for (const std::string& line : code)
      if (line.starts_with('!') && line.find("!DILocation(") != std::string::npos)
        lines_[std::atoi(line.c_str() + 1)] = number_behind(line, "line: ");
  }
  Mark read(const std::string& line) const {
    if (line.starts_with('!'))
      return {.is_left_out = line.find("!DI") != std::string::npos ||
                             line.find("\"Debug Info Version\"") != std::string::npos || line.starts_with("!llvm.") ||
                             line.ends_with(" = !{}")};
    if (line.starts_with("define")) return {0, true, false, line.substr(0, line.find(" !dbg !")) + " {"};
    const std::size_t at = line.find(kLocation);
    if (at == std::string::npos)
      return {line.starts_with("  ") && !line.starts_with("  ]") ? 0 : -1, true, false, line};
    const auto found = lines_.find(number_behind(line, kLocation));
    return {found == lines_.end() ? 0 : found->second, true, false, line.substr(0, at)};
  }

 private:
  std::map<int, int> lines_;  // by number of the location
};

// "\t.loc\t1 3 0", with labels for debuggers in front of it.
Mark read_directive(const std::string& line) {
  if (line.starts_with("\t.file\t") || line.starts_with(".Ltmp") || line.starts_with("$L__tmp"))
    return {.is_left_out = true};
  if (!line.starts_with("\t.loc\t")) return {-1, true, false, line};
  return {number_behind(line, " "), false, true};
}

// nvdisasm: "\t//## File "/kernel", line 3".
Mark read_sass(const std::string& line) {
  if (line.find("//## File ") == std::string::npos) return {-1, true, false, line};
  return {number_behind(line, "\", line "), false, true};
}

}  // namespace

std::string with_kernel_lines(const std::string& code, const std::string& kernel, CodeForm form) {
  const std::vector<std::string> lines = lines_of(code), statements = lines_of(kernel);
  const IrMarks ir(lines);
  const bool is_ir = form == CodeForm::llvm;
  std::string out;
  int last = 0;
  for (const std::string& line : lines) {
    const Mark mark = is_ir ? ir.read(line) : form == CodeForm::sass ? read_sass(line) : read_directive(line);
    const bool is_known = mark.line > 0 && static_cast<std::size_t>(mark.line) <= statements.size();
    if (is_known && mark.line != last) {
      const std::string& text = statements[static_cast<std::size_t>(mark.line) - 1];
      out += fmt::format("{}{} {}: {}\n", is_ir ? "  " : "\t", comment_of(form), mark.line,
                         text.substr(std::min(text.find_first_not_of(' '), text.size())));
    }
    if (mark.line >= 0) last = mark.line;
    if (mark.is_code) out += mark.text + "\n";
    if (!mark.is_code && !mark.is_left_out) out += line + "\n";
  }
  return out;
}

}  // namespace fusec::tool

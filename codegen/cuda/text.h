// SPDX-License-Identifier: Apache-2.0
// Builds lines of C++ and pieces of expressions.
#pragma once

#include <string>
#include <vector>

namespace fusec::codegen::cuda {

// Lines, indented by the number of open braces.
class Text {
 public:
  void line(const std::string& s);
  void open(const std::string& head);  // "head {", or "{"
  void close();
  void comment(const std::string& s);  // takes any text; nothing in it can end the comment
  const std::string& str() const { return out_; }

 private:
  std::string out_;
  int depth_ = 1;
};

// `s` as an operand of any operator: in parentheses unless it is one name, number, call or subscript.
std::string operand(const std::string& s);
std::string joined(const std::vector<std::string>& parts, const std::string& between);

}  // namespace fusec::codegen::cuda

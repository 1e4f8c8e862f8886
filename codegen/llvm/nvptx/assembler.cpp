// SPDX-License-Identifier: Apache-2.0
#include "codegen/llvm/nvptx/assembler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace fusec::codegen::nvptx {
namespace {

// "op \ta, b, c;" -> op, a, b, c; other lines: nothing that is taken for an instruction, or nothing.
std::vector<std::string_view> instruction(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t"), end = line.find(';');
  if (begin == std::string_view::npos || end == std::string_view::npos || end <= begin) return {};
  line = line.substr(begin, end - begin);
  std::vector<std::string_view> parts;
  while (!line.empty()) {
    const std::size_t size = std::min(line.find_first_of(" \t,"), line.size());
    parts.push_back(line.substr(0, size));
    const std::size_t next = line.find_first_not_of(" \t,", size);
    line = next == std::string_view::npos ? std::string_view() : line.substr(next);
  }
  return parts;
}

bool is_f32_number(std::string_view operand) { return operand.starts_with("0f"); }

// An immediate is one of 16 bits, whatever its sign: it goes through a register of as many.
std::string in_32_bits(const std::vector<std::string_view>& parts) {
  const std::string_view name = parts[0].substr(0, 3), sign = parts[0].substr(4, 1);
  return fmt::format(
      "\t{{ .reg .b16 y; .reg .b32 a, b; mov.b16 y, {3}; cvt.{1}32.{1}16 a, {2}; cvt.{1}32.{1}16 b, y; {0}.{1}32 a, a, b; "
      "cvt.u16.u32 {4}, a; }}\n",
      name, sign, parts[2], parts[3], parts[1]);
}

// What takes the line's place; nothing: the line stays.
std::string replacement(std::string_view line) {
  const std::vector<std::string_view> parts = instruction(line);
  if (parts.empty()) return {};
  constexpr std::array<std::string_view, 4> kExtremes = {"max.u16", "max.s16", "min.u16", "min.s16"};
  if (parts.size() == 4 && std::find(kExtremes.begin(), kExtremes.end(), parts[0]) != kExtremes.end()) return in_32_bits(parts);
  if (parts.size() == 5 && parts[0] == "selp.f32" && is_f32_number(parts[2]) && is_f32_number(parts[3])) {
    return fmt::format("\tselp.b32 \t{}, {}, {}, {};\n", parts[1], parts[2], parts[3], parts[4]);
  }
  return {};
}

}  // namespace

std::string spare_assembler(const std::string& ptx) {
  std::string out;
  out.reserve(ptx.size() + ptx.size() / 16);
  for (std::size_t at = 0; at < ptx.size();) {
    const std::size_t end = std::min(ptx.find('\n', at), ptx.size() - 1) + 1;
    const std::string_view line = std::string_view(ptx).substr(at, end - at);
    const std::string other = replacement(line);
    out += other.empty() ? line : std::string_view(other);
    at = end;
  }
  return out;
}

}  // namespace fusec::codegen::nvptx

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "codegen/cuda/nvrtc.h"

namespace fusec::codegen::cuda {
namespace {

// The number in front of `what`: "16 registers".
int64_t number_before(const std::string& line, const std::string& what) {
  std::size_t at = line.find(what);
  if (at == std::string::npos) return 0;
  while (at > 0 && line[at - 1] == ' ') --at;
  std::size_t from = at;
  while (from > 0 && line[from - 1] >= '0' && line[from - 1] <= '9') --from;
  return std::strtoll(line.substr(from, at - from).c_str(), nullptr, 10);
}

std::string quoted(const std::string& line, const std::string& after) {
  const std::size_t at = line.find(after + "'");
  if (at == std::string::npos) return "";
  const std::size_t from = at + after.size() + 1;
  return line.substr(from, line.find('\'', from) - from);
}

}  // namespace

// Compiling entry function 'f' for 'sm_90' / 0 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads / Used 14
// registers, used 1 barriers, 128 bytes smem. Spilled registers lie in the stack frame.
std::map<std::string, Resources> parse_resources(const std::string& log) {
  std::map<std::string, Resources> out;
  Resources* current = nullptr;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (const std::string name = quoted(line, "entry function "); !name.empty()) current = &out[name];
    if (current == nullptr) continue;
    if (line.find("bytes stack frame") != std::string::npos) {
      current->local_bytes = std::max(number_before(line, "bytes stack frame"), number_before(line, "bytes spill stores"));
    }
    if (line.find(" registers") != std::string::npos) {
      current->registers = static_cast<int>(number_before(line, "registers"));
      current->shared_bytes = number_before(line, "bytes smem");
    }
  }
  return out;
}

}  // namespace fusec::codegen::cuda

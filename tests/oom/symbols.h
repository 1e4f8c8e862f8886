// SPDX-License-Identifier: Apache-2.0
// Names of code addresses of this process, static functions included.
#pragma once

#include <string>

namespace fusec::oom_test {

struct Place {
  std::string module;  // "libfdnn.so.3"; of this program "program"
  std::string symbol;  // mangled; empty: unknown
};

Place find_place(const void* address);
std::string demangled(const std::string& symbol);

}  // namespace fusec::oom_test

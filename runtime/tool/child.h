// SPDX-License-Identifier: Apache-2.0
// Another program, run to its end.
#pragma once

#include <string>
#include <vector>

#include "fusec/status.h"

namespace fusec::tool {

struct Ended {
  int code = 0;        // exit code, or 128 + signal; kTimedOut
  std::string output;  // of stdout and stderr together, its first 64 KiB
};
inline constexpr int kTimedOut = -1;
std::string ended_text(int code);  // "exit code 1", "signal 11 (Segmentation fault)", "no end"

// argv[0] is looked up in PATH; no shell. After `seconds` it is killed. invalid_argument: it cannot be started.
Result<Ended> run_child(const std::vector<std::string>& argv, double seconds);

}  // namespace fusec::tool

// SPDX-License-Identifier: Apache-2.0
// Processes: another program that is run to its end, and what a signal does to this one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "fusec/status.h"

namespace fusec::tool {

struct Ended {
  int code = 0;        // exit code, or 128 + signal; kTimedOut
  std::string output;  // of stdout and stderr together, its first bytes
};
inline constexpr int kTimedOut = -1;
std::string ended_text(int code);  // "exit code 1", "signal 11 (Segmentation fault)", "no end"

// argv[0] is looked up in PATH; no shell. After `seconds` it is killed. invalid_argument: it cannot be started.
// `most_output`: bytes of output that are kept.
Result<Ended> run_child(const std::vector<std::string>& argv, double seconds, std::size_t most_output = 64 << 10);

// From now on SIGINT, SIGTERM and SIGHUP remove the temporary files of the process and then end it as they do by
// default; those that are ignored stay so.
void clean_up_on_signals();

}  // namespace fusec::tool

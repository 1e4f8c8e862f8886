// SPDX-License-Identifier: Apache-2.0
// What the stages of one compile share beside their inputs: the time limit, which they check between passes, regions
// and kernels, and Options::dump_dir, to which they write text for inspection.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "fusec/status.h"

namespace fusec::ir {

class Deadline {
 public:
  Deadline() = default;  // no limit
  // Starts now and ends after Options::compile_seconds; unset: no limit.
  explicit Deadline(std::optional<double> seconds, const std::atomic<bool>* cancelled = nullptr);
  // invalid_argument, with the limit, `stage` and a remedy, if the time is over, or if `cancelled` is set.
  Status check(const char* stage) const;

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<double> seconds_;
  Clock::time_point start_;
  const std::atomic<bool>* cancelled_ = nullptr;
};

// Writes text() to the file `name` in the folder `dir`. Does nothing if `dir` is empty. invalid_argument: the file
// cannot be written.
Status dump(const std::string& dir, const std::string& name, const std::function<std::string()>& text);

}  // namespace fusec::ir

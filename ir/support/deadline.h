// SPDX-License-Identifier: Apache-2.0
// The time limit of one compile, which the stages check between passes, regions and kernels.
#pragma once

#include <chrono>
#include <optional>

#include "fusec/status.h"

namespace fusec::ir {

class Deadline {
 public:
  Deadline() = default;  // no limit
  // Starts now and ends after Options::compile_seconds; unset: no limit.
  explicit Deadline(std::optional<double> seconds);
  // invalid_argument, with the limit, `stage` and a remedy, if the time is over.
  Status check(const char* stage) const;

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<double> seconds_;
  Clock::time_point start_;
};

}  // namespace fusec::ir

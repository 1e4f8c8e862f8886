// SPDX-License-Identifier: Apache-2.0
// The end of the time that one compile may take, which its stages ask for between passes, regions and kernels.
#pragma once

#include <chrono>
#include <optional>

#include "fusec/status.h"

namespace fusec::ir {

class Deadline {
 public:
  Deadline() = default;  // never
  // Options::compile_seconds from now on; unset: never.
  explicit Deadline(std::optional<double> seconds);
  // invalid_argument, with the limit, `stage` and what to do, when the time is over.
  Status check(const char* stage) const;

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<double> seconds_;
  Clock::time_point start_;
};

}  // namespace fusec::ir

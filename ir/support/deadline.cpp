// SPDX-License-Identifier: Apache-2.0
// Checks the time limit of a compile. It only compares clocks; the stages decide where to check.

#include "ir/support/deadline.h"

#include <fmt/format.h>

namespace fusec::ir {

Deadline::Deadline(std::optional<double> seconds) : seconds_(seconds), start_(Clock::now()) {}

Status Deadline::check(const char* stage) const {
  const std::chrono::duration<double> passed = Clock::now() - start_;
  if (!seconds_ || passed.count() < *seconds_) return {};
  return Status(StatusCode::invalid_argument,
                fmt::format("the compile took longer than its limit of {} s and was ended in stage {}; raise "
                            "Options::compile_seconds (--compile-limit), or leave it out",
                            *seconds_, stage));
}

}  // namespace fusec::ir

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <type_traits>
#include <vector>

#include "fusec/engine.h"

namespace fusec::runtime {

// Calls one stage, notes its time, and says in an error which stage it was.
template <class F>
auto timed_stage(std::vector<StageTime>& times, const char* stage, const F& f) -> decltype(f()) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  auto result = f();
  times.push_back({stage, std::chrono::duration<double, std::milli>(Clock::now() - start).count()});
  const Status status = [&] {
    if constexpr (std::is_same_v<decltype(f()), Status>) {
      return result;
    } else {
      return result.status();
    }
  }();
  if (!status.ok()) return Status(status).with_note(std::string("in stage ") + stage);
  return result;
}

}  // namespace fusec::runtime

// SPDX-License-Identifier: Apache-2.0
// Makes a Profile of traced and untraced runs.
#pragma once

#include <vector>

#include "fusec/profile.h"
#include "runtime/plan/plan.h"
#include "runtime/run/trace.h"

namespace fusec::runtime {

struct ProfiledRuns {
  std::vector<double> untraced_us;
  std::vector<double> device_us;  // of untraced runs; empty where there is no device beside the host
  std::vector<RunTrace> traced;
};

// Fills the times, launches and slices of `profile`. `stats` describes the plan.
void summarize(const Plan& plan, const PlanStats& stats, const ProfiledRuns& runs, Profile& profile);

// Of `count` runs in order of time, the positions of the middle half: at least one.
struct MiddleHalf {
  std::size_t begin = 0, end = 0;
};
MiddleHalf middle_half(std::size_t count);

}  // namespace fusec::runtime

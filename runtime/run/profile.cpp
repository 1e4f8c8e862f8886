// SPDX-License-Identifier: Apache-2.0
// Times of launches, copies and gaps are means over the same runs, the middle half of the traced ones by time: so they
// add up, and runs that were disturbed do not count. Tracing makes the host slower, so the host's part on a GPU is that
// of untraced runs. It makes the GPU slower too: events tell how long both kinds of runs take there, and what CUPTI
// tells is divided by their ratio.

#include "runtime/run/profile.h"

#include <algorithm>
#include <numeric>

namespace fusec::runtime {
namespace {

double middle_mean(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto [begin, end] = middle_half(values.size());
  return std::accumulate(values.begin() + static_cast<std::ptrdiff_t>(begin),
                         values.begin() + static_cast<std::ptrdiff_t>(end), 0.0) /
         static_cast<double>(end - begin);
}

void scale(Profile& profile, double factor) {
  for (double* const us : {&profile.sum_us, &profile.copies_us, &profile.gaps_us}) *us *= factor;
  for (LaunchProfile& launch : profile.launches) launch.info.us *= factor, launch.gap_us *= factor;
}

void add_shares(const Plan& plan, const TimeShares& shares, double part, Profile& profile) {
  profile.copies_us += part * shares.copies_us;
  profile.gaps_us += part * shares.gaps_us;
  profile.host_us += part * shares.host_us;
  for (std::size_t i = plan.once; i < plan.launches.size(); ++i) {
    LaunchProfile& launch = profile.launches[i - plan.once];
    launch.info.us += part * shares.launch_us[i];
    launch.gap_us += part * shares.gap_us[i];
    profile.sum_us += part * shares.launch_us[i];
  }
}

// Of one run that stands for all.
void place_launches(const Plan& plan, const RunTrace& run, Profile& profile) {
  std::vector<bool> seen(profile.launches.size());
  for (const TraceSpan& span : run.spans) {
    if (span.launch < static_cast<int32_t>(plan.once)) continue;
    const std::size_t i = static_cast<std::size_t>(span.launch) - plan.once;
    LaunchProfile& launch = profile.launches[i];
    const double begin = to_us(span.begin - run.begin), end = to_us(span.end - run.begin);
    launch.start_us = seen[i] ? std::min(launch.start_us, begin) : begin;
    launch.end_us = seen[i] ? std::max(launch.end_us, end) : end;
    seen[i] = true;
  }
}

void add_slices(const Plan& plan, const RunTrace& run, int64_t number, int64_t zero, Profile& profile) {
  profile.slices.push_back({SliceKind::call, number, -1, "run " + std::to_string(number), "runs",
                            to_us(run.begin - zero), to_us(run.end - zero), 0});
  for (const TraceSlice& slice : run.slices) {
    const int32_t launch = slice.launch < 0 ? -1 : slice.launch - static_cast<int32_t>(plan.once);
    profile.slices.push_back({slice.kind, number, launch, slice.name, slice.track, to_us(slice.begin - zero),
                              to_us(slice.end - zero), slice.bytes});
    if (launch >= 0 && slice.kind == SliceKind::launch)
      profile.launches[static_cast<std::size_t>(launch)].track = slice.track;
  }
}

}  // namespace

MiddleHalf middle_half(std::size_t count) {
  const std::size_t begin = count / 4;
  return {begin, std::max(count - begin, begin + 1)};
}

void summarize(const Plan& plan, const PlanStats& stats, const ProfiledRuns& runs, Profile& profile) {
  for (std::size_t i = plan.once; i < plan.launches.size(); ++i) {
    LaunchProfile launch;
    launch.info = stats.steps[i];
    launch.info.us = 0;
    profile.launches.push_back(std::move(launch));
  }
  profile.runs = static_cast<int64_t>(runs.traced.size());
  profile.measured_us = middle_mean(runs.untraced_us);
  std::vector<const RunTrace*> by_time;
  for (const RunTrace& run : runs.traced) by_time.push_back(&run);
  std::sort(by_time.begin(), by_time.end(),
            [](const RunTrace* a, const RunTrace* b) { return a->end - a->begin < b->end - b->begin; });
  if (by_time.empty()) return;
  const auto [begin, end] = middle_half(by_time.size());
  const double part = 1 / static_cast<double>(end - begin);
  for (std::size_t r = begin; r < end; ++r) {
    profile.traced_us += part * to_us(by_time[r]->end - by_time[r]->begin);
    profile.traced_device_us += part * by_time[r]->device_us;
    add_shares(plan, share_time(*by_time[r], plan.launches.size()), part, profile);
  }
  if (!runs.device_us.empty()) {
    profile.device_us = middle_mean(runs.device_us);
    profile.host_us = std::max(0.0, profile.measured_us - profile.device_us);
    scale(profile, 1 / profile.device_slow_down());
  }
  profile.unexplained_us = profile.measured_us - profile.parts_us();
  place_launches(plan, *by_time[by_time.size() / 2], profile);
  for (LaunchProfile& launch : profile.launches) {
    if (launch.info.us > 0) launch.gb_per_s = static_cast<double>(launch.info.bytes) / (1e3 * launch.info.us);
  }
  int64_t number = 0;
  for (const RunTrace& run : runs.traced) add_slices(plan, run, number++, runs.traced.front().begin, profile);
  // The slice of a group is that of its first launch.
  for (std::size_t i = 1; i < profile.launches.size(); ++i) {
    LaunchProfile& launch = profile.launches[i];
    if (launch.track.empty() && launch.info.us > 0) launch.track = profile.launches[i - 1].track;
  }
  separate_tracks(profile.slices);
}

}  // namespace fusec::runtime

// SPDX-License-Identifier: Apache-2.0
#include "runtime/run/trace.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace fusec::runtime {
namespace {

// Divides a stretch of time in which the same spans are under way.
void divide(std::span<const TraceSpan* const> active, double stretch_us, TimeShares& shares) {
  double weights = 0;
  for (const TraceSpan* span : active) weights += span->weight;
  for (const TraceSpan* span : active) {
    const double part = weights > 0 ? span->weight / weights : 1 / static_cast<double>(active.size());
    double& to = span->launch >= 0 ? shares.launch_us[static_cast<std::size_t>(span->launch)] : shares.copies_us;
    to += part * stretch_us;
  }
}

}  // namespace

double TimeShares::total_us() const {
  return std::accumulate(launch_us.begin(), launch_us.end(), copies_us + gaps_us + host_us);
}

// Goes through all begins and ends of spans in order. Time between two spans of one launch, as a library call of
// several kernels has them, is the launch's.
TimeShares share_time(const RunTrace& run, std::size_t launches) {
  TimeShares shares;
  shares.launch_us.resize(launches);
  shares.gap_us.resize(launches);
  std::vector<TraceSpan> spans;
  for (TraceSpan span : run.spans) {
    span.begin = std::clamp(span.begin, run.begin, run.end);
    span.end = std::clamp(span.end, span.begin, run.end);
    spans.push_back(span);
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [](const TraceSpan& a, const TraceSpan& b) { return a.begin < b.begin; });
  if (spans.empty()) {
    shares.host_us = to_us(run.end - run.begin);
    return shares;
  }
  shares.host_us = to_us(spans.front().begin - run.begin);
  int64_t last_launch = run.begin;
  for (const TraceSpan& span : spans)
    if (span.launch >= 0) last_launch = std::max(last_launch, span.begin);
  bool launched = false;
  int32_t over = -1;  // the launch of the span that ended last
  std::vector<const TraceSpan*> active;
  int64_t at = spans.front().begin;
  const auto pass_to = [&](int64_t until) {
    while (at < until && !active.empty()) {
      int64_t next = until;
      for (const TraceSpan* span : active) next = std::min(next, span->end);
      if (next > at) divide(active, to_us(next - at), shares);
      at = std::max(at, next);
      std::erase_if(active, [&](const TraceSpan* span) {
        if (span->end <= at) over = span->launch;
        return span->end <= at;
      });
    }
  };
  for (const TraceSpan& span : spans) {
    pass_to(span.begin);
    if (at < span.begin) {
      const bool is_gap = launched && span.begin <= last_launch, is_inside = span.launch >= 0 && span.launch == over;
      const double us = to_us(span.begin - at);
      if (is_inside) {
        shares.launch_us[static_cast<std::size_t>(span.launch)] += us;
      } else {
        (is_gap ? shares.gaps_us : shares.host_us) += us;
        if (is_gap && span.launch >= 0) shares.gap_us[static_cast<std::size_t>(span.launch)] += us;
      }
      at = span.begin;
    }
    launched = launched || span.launch >= 0;
    active.push_back(&span);
  }
  pass_to(run.end);
  shares.host_us += to_us(run.end - at);
  return shares;
}

void separate_tracks(std::vector<ProfileSlice>& slices) {
  std::stable_sort(slices.begin(), slices.end(), [](const ProfileSlice& a, const ProfileSlice& b) {
    return a.track != b.track ? a.track < b.track : a.start_us < b.start_us;
  });
  std::map<std::string, std::vector<double>> ends;  // by track: of the last slice on it and on its further ones
  for (ProfileSlice& slice : slices) {
    std::vector<double>& lanes = ends[slice.track];
    const auto free = std::find_if(lanes.begin(), lanes.end(), [&](double end) { return end <= slice.start_us; });
    const auto lane = free - lanes.begin();
    if (free == lanes.end()) lanes.push_back(0);
    lanes[static_cast<std::size_t>(lane)] = slice.end_us;
    if (lane > 0) slice.track += " (" + std::to_string(lane + 1) + ")";
  }
  std::stable_sort(slices.begin(), slices.end(), [](const ProfileSlice& a, const ProfileSlice& b) {
    return a.track != b.track ? a.track < b.track : a.start_us < b.start_us;
  });
}

}  // namespace fusec::runtime

namespace fusec {

const char* to_string(SliceKind kind) {
  constexpr const char* kNames[] = {"call", "host", "launch", "part", "copy"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace fusec

// SPDX-License-Identifier: Apache-2.0
// What a traced run leaves: slices for a timeline, and the spans of its launches, from which each launch's share of the
// time is computed.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fusec/profile.h"

namespace fusec::runtime {

inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline double to_us(int64_t ns) { return 1e-3 * static_cast<double>(ns); }

// Nanoseconds of now_ns().
struct TraceSlice {
  SliceKind kind = SliceKind::launch;
  int32_t launch = -1;  // of the plan
  std::string name;
  std::string track;
  int64_t begin = 0, end = 0;
  int64_t bytes = 0;
};

// Time in which a launch, or a copy (-1), was under way. Spans may overlap; each has a part of that time that goes by
// its weight.
struct TraceSpan {
  int32_t launch = -1;
  int64_t begin = 0, end = 0;
  double weight = 1;
};

struct RunTrace {
  int64_t begin = 0, end = 0;  // of the call
  double device_us = 0;        // of a GPU, by events as Profile::device_us; 0: not measured
  std::vector<TraceSlice> slices;
  std::vector<TraceSpan> spans;
};

// How the time of one run is divided. The parts add up to its time.
struct TimeShares {
  std::vector<double> launch_us;  // by launch of the plan
  std::vector<double> gap_us;     // before the launch's first span, with nothing under way
  double copies_us = 0;
  double gaps_us = 0;  // between the first launch and the last
  double host_us = 0;  // before the first launch and after the last, with nothing under way
  double total_us() const;
};
TimeShares share_time(const RunTrace& run, std::size_t launches);

// Moves slices that would overlap others of their track to further tracks of its name: "stream 7 (2)".
void separate_tracks(std::vector<ProfileSlice>& slices);

}  // namespace fusec::runtime

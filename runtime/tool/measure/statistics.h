// SPDX-License-Identifier: Apache-2.0
// What a list of run times says: its distribution, and whether it differs from another one. Nothing here measures.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fusec::tool {

// In the unit of the times. Percentiles are nearest ranks; all zero of nothing.
struct Distribution {
  int64_t runs = 0;
  double mean = 0, std = 0;  // std: of a sample, so divided by runs - 1
  double min = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
};
Distribution summarize(std::span<const double> times);

// At most `most` of them, evenly spaced and in their order, with three digits behind the point.
std::vector<double> thin_out(std::span<const double> times, std::size_t most);

// The probability that two equal distributions would give ranks of `larger` at least as high as these, by the U test of
// Mann and Whitney with the normal approximation, corrected for ties. 1 where either side is empty.
double mann_whitney(std::span<const double> smaller, std::span<const double> larger);

struct TimeChange {
  double before = 0, now = 0, ratio = 1;  // medians; now / before
  double p_slower = 1, p_faster = 1;      // of mann_whitney, one way and the other
  bool slower = false, faster = false;
};
// Slower: the median grew by more than 3 % and p_slower is below 0.01. Faster: the same the other way round.
TimeChange compare_times(std::span<const double> before, std::span<const double> now);

}  // namespace fusec::tool

// SPDX-License-Identifier: Apache-2.0
// Wall-clock measurements: of a call alone, and of a call between two copies of as many bytes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/tool/copy_speed.h"

namespace fusec::tool {

struct Budget {
  double seconds = 1;  // measured, after warm-up
  int64_t runs = 0;    // > 0: exactly so many, whatever they take
  int64_t warmup = 3;  // runs before
};

using Call = std::function<void()>;

double time_us(const Call& call);
// Microseconds of each run; at least 5.
std::vector<double> time_runs(const Call& call, const Budget& budget);

double percentile(std::vector<double> values, double p);  // p in 0..1, nearest rank; 0 of nothing
inline double median(std::vector<double> values) { return percentile(std::move(values), 0.5); }

struct Paired {
  std::vector<double> us;        // of the call, per kept round
  double copy_us = 0;            // median over kept rounds
  double score = 0;              // median of copy time / call time over kept rounds
  double copy_spread = 0;        // of kept rounds: slowest copy / fastest copy
  CopyMethod method;             // the fastest at this size
  int64_t rounds = 0, kept = 0;  // kept: rounds whose two copies differ by at most 8 %
};

// Rounds of copy, call, copy; the copy that ends a round begins the next one. So call and copy alternate, and each
// finds in the last-level cache what the other has left of its data: two copies in a row would find more. Short calls
// are repeated inside a round, and so are its copies. When no round is steady, all of them count and kept is 0.
Paired time_paired(const Call& call, CopySpeed& copy, int64_t bytes, const Budget& budget);

}  // namespace fusec::tool

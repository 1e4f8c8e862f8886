// SPDX-License-Identifier: Apache-2.0
// Bounds and runs over batches.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace fusec::tool {

struct BatchPoint {
  int64_t batch = 0;
  double bound_us = 0, fusion_us = 0;
  std::optional<double> measured_us;  // none: nothing was run
  // Of the run, or by the bound where there is none.
  double samples_per_s() const;
};

// The point of most samples per second; of equal ones the smaller batch. None for no points.
std::optional<std::size_t> best_batch(const std::vector<BatchPoint>& points);

// Pairs of neighbouring batches, the smaller first, of which the larger has the lower bound. More work takes no less
// time, so such rows are measured badly: nothing is smoothed over.
std::vector<std::pair<int64_t, int64_t>> falling_bounds(std::vector<BatchPoint> points);

}  // namespace fusec::tool

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

// Of each point: the lowest bound of its batch and of larger ones, because a batch can run as a part of a larger one.
// So no larger batch has a lower bound.
std::vector<double> bounds_of_batches(const std::vector<BatchPoint>& points);

// Pairs of neighbouring batches, the smaller first, of which the larger has the lower bound by its own rows.
std::vector<std::pair<int64_t, int64_t>> falling_bounds(std::vector<BatchPoint> points);

}  // namespace fusec::tool

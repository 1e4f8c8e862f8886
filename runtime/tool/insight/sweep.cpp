// SPDX-License-Identifier: Apache-2.0
// Compares batches by their bounds and runs.

#include "runtime/tool/insight/sweep.h"

#include <algorithm>

namespace fusec::tool {

double BatchPoint::samples_per_s() const {
  const double us = measured_us.value_or(bound_us);
  return us > 0 ? 1e6 * static_cast<double>(batch) / us : 0;
}

std::optional<std::size_t> best_batch(const std::vector<BatchPoint>& points) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double rate = points[i].samples_per_s();
    const double known = best ? points[*best].samples_per_s() : -1;
    if (rate > known || (rate == known && points[i].batch < points[*best].batch)) best = i;
  }
  return best;
}

std::vector<double> bounds_of_batches(const std::vector<BatchPoint>& points) {
  std::vector<double> out;
  for (const BatchPoint& point : points) {
    double least = point.bound_us;
    for (const BatchPoint& other : points)
      if (other.batch > point.batch) least = std::min(least, other.bound_us);
    out.push_back(least);
  }
  return out;
}

std::vector<std::pair<int64_t, int64_t>> falling_bounds(std::vector<BatchPoint> points) {
  std::stable_sort(points.begin(), points.end(),
                   [](const BatchPoint& a, const BatchPoint& b) { return a.batch < b.batch; });
  std::vector<std::pair<int64_t, int64_t>> out;
  for (std::size_t i = 1; i < points.size(); ++i)
    if (points[i].bound_us < points[i - 1].bound_us) out.emplace_back(points[i - 1].batch, points[i].batch);
  return out;
}

}  // namespace fusec::tool

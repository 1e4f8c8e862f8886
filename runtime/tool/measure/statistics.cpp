// SPDX-License-Identifier: Apache-2.0
// Computes distributions of run times and compares two of them by ranks, so that a few interrupted runs, which are far
// out, weigh no more than others.

#include "runtime/tool/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace fusec::tool {
namespace {

constexpr double kChange = 1.03;    // smaller ratios say little, however many runs there are
constexpr double kChance = 0.01;    // of an error of the first kind
constexpr std::size_t kFewest = 4;  // with fewer on a side no order of ranks is rarer than kChance

double nearest_rank(const std::vector<double>& sorted, double p) {
  const auto rank = static_cast<std::size_t>(std::ceil(p * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

std::vector<double> sorted_copy(std::span<const double> values) {
  std::vector<double> out(values.begin(), values.end());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

Distribution summarize(std::span<const double> times) {
  Distribution d;
  if (times.empty()) return d;
  const std::vector<double> sorted = sorted_copy(times);
  const auto count = static_cast<double>(sorted.size());
  d.runs = static_cast<int64_t>(sorted.size());
  d.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / count;
  double squares = 0;
  for (const double t : sorted) squares += (t - d.mean) * (t - d.mean);
  d.std = sorted.size() > 1 ? std::sqrt(squares / (count - 1)) : 0;
  d.min = sorted.front();
  d.p50 = nearest_rank(sorted, 0.5);
  d.p90 = nearest_rank(sorted, 0.9);
  d.p95 = nearest_rank(sorted, 0.95);
  d.p99 = nearest_rank(sorted, 0.99);
  d.max = sorted.back();
  return d;
}

std::vector<double> thin_out(std::span<const double> times, std::size_t most) {
  std::vector<double> kept;
  const std::size_t count = std::min(times.size(), most);
  for (std::size_t i = 0; i < count; ++i) kept.push_back(std::round(1e3 * times[i * times.size() / count]) / 1e3);
  return kept;
}

double mann_whitney(std::span<const double> smaller, std::span<const double> larger) {
  if (smaller.empty() || larger.empty()) return 1;
  std::vector<std::pair<double, bool>> all;  // value, whether it is one of `larger`
  for (const double v : smaller) all.emplace_back(v, false);
  for (const double v : larger) all.emplace_back(v, true);
  std::sort(all.begin(), all.end());
  double ranks = 0, ties = 0;  // sum of ranks of `larger`; sum of t^3 - t over groups of equal values
  for (std::size_t i = 0; i < all.size();) {
    std::size_t end = i;
    while (end < all.size() && all[end].first == all[i].first) ++end;
    const double middle = static_cast<double>(i + 1 + end) / 2, t = static_cast<double>(end - i);
    for (; i < end; ++i) ranks += all[i].second ? middle : 0;
    ties += t * t * t - t;
  }
  const auto a = static_cast<double>(smaller.size()), b = static_cast<double>(larger.size()), n = a + b;
  const double u = ranks - b * (b + 1) / 2, mean = a * b / 2;
  const double variance = a * b / 12 * (n + 1 - ties / (n * (n - 1)));
  if (variance <= 0) return 1;
  return 0.5 * std::erfc((u - mean - 0.5) / std::sqrt(2 * variance));  // 0.5: U is an integer
}

TimeChange compare_times(std::span<const double> before, std::span<const double> now) {
  TimeChange change;
  change.before = summarize(before).p50;
  change.now = summarize(now).p50;
  if (change.before > 0) change.ratio = change.now / change.before;
  if (std::min(before.size(), now.size()) < kFewest) return change;
  change.p_slower = mann_whitney(before, now);
  change.p_faster = mann_whitney(now, before);
  change.slower = change.ratio > kChange && change.p_slower < kChance;
  change.faster = change.ratio < 1 / kChange && change.p_faster < kChance;
  return change;
}

}  // namespace fusec::tool

// SPDX-License-Identifier: Apache-2.0
// Assigns arena offsets by best fit, for several interval orders, and stops when one of them meets the lower bound.
// Otherwise a bounded random walk from each of these orders moves the intervals at the peak to earlier positions.
// Optimal packing is NP-hard, and for real networks one of the first orders usually meets the bound.

#include "runtime/plan/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <utility>

#include "fusec/dim.h"
#include "runtime/device/host/memory.h"

namespace fusec::runtime {
namespace {

using Order = std::vector<int>;

// Interval visits that the walks may cost together: a few tens of milliseconds.
constexpr int64_t kWalkBudget = 40'000'000;
constexpr int kWalkRounds = 400;  // of each walk
constexpr int kLostRounds = 12;   // without a better plan, before a walk goes back to its best one
constexpr int kLongestMove = 8;   // a power of two, in positions

bool overlap_in_time(const BufferInterval& a, const BufferInterval& b) {
  return a.first <= b.last && b.first <= a.last;
}

// The lowest of the smallest gaps between placed neighbours that the interval fits in, else the end of the last
// neighbour.
int64_t best_fit(const std::vector<BufferInterval>& intervals, const std::vector<int64_t>& offsets,
                 const Order& by_offset, int interval) {
  int64_t best = -1, best_gap = INT64_MAX, end = 0;
  for (int other : by_offset) {
    const auto o = static_cast<std::size_t>(other);
    if (!overlap_in_time(intervals[o], intervals[static_cast<std::size_t>(interval)])) continue;
    const int64_t gap = offsets[o] - end;
    if (gap >= intervals[static_cast<std::size_t>(interval)].bytes && gap < best_gap) {
      best_gap = gap;
      best = end;
    }
    end = std::max(end, offsets[o] + intervals[o].bytes);
  }
  return best >= 0 ? best : end;
}

MemoryPlan place(const std::vector<BufferInterval>& intervals, const Order& order) {
  MemoryPlan plan;
  plan.offsets.assign(intervals.size(), 0);
  Order by_offset;
  by_offset.reserve(order.size());
  for (int interval : order) {
    const auto b = static_cast<std::size_t>(interval);
    plan.offsets[b] = best_fit(intervals, plan.offsets, by_offset, interval);
    plan.arena_bytes = std::max(plan.arena_bytes, plan.offsets[b] + intervals[b].bytes);
    auto at = std::upper_bound(by_offset.begin(), by_offset.end(), plan.offsets[b], [&](int64_t offset, int other) {
      return offset < plan.offsets[static_cast<std::size_t>(other)];
    });
    by_offset.insert(at, interval);
  }
  return plan;
}

struct Peak {
  int64_t bytes = 0;  // a lower bound on the arena size of any plan
  int step = 0;       // where intervals have so many together
};

Peak peak_of_sums(const std::vector<BufferInterval>& intervals) {
  std::map<int, int64_t> change;
  for (const BufferInterval& b : intervals) {
    change[b.first] += b.bytes;
    change[b.last + 1] -= b.bytes;
  }
  int64_t sum = 0;
  Peak peak;
  for (const auto& [step, bytes] : change)
    if ((sum += bytes) > peak.bytes) peak = {sum, step};
  return peak;
}

Order ordered_by(const std::vector<BufferInterval>& intervals,
                 const std::function<double(const BufferInterval&)>& key) {
  Order order(intervals.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return key(intervals[static_cast<std::size_t>(a)]) < key(intervals[static_cast<std::size_t>(b)]);
  });
  return order;
}

std::vector<Order> first_orders(const std::vector<BufferInterval>& intervals, const Peak& peak) {
  const auto size = [](const BufferInterval& b) { return static_cast<double>(b.bytes); };
  const auto length = [](const BufferInterval& b) { return static_cast<double>(b.last - b.first + 1); };
  return {ordered_by(intervals, [&](const BufferInterval& b) { return -size(b); }),
          ordered_by(intervals, [&](const BufferInterval& b) { return -size(b) * length(b); }),
          ordered_by(intervals, [&](const BufferInterval& b) { return static_cast<double>(b.first); }),
          ordered_by(intervals, [&](const BufferInterval& b) { return -length(b); }),
          ordered_by(intervals, [&](const BufferInterval& b) { return -size(b) * std::sqrt(length(b)); }),
          ordered_by(intervals, [&](const BufferInterval& b) { return -static_cast<double>(b.last); }),
          ordered_by(intervals, [&](const BufferInterval& b) {
            const bool at_peak = b.first <= peak.step && peak.step <= b.last;
            return -size(b) - (at_peak ? static_cast<double>(peak.bytes) : 0);
          })};
}

// Moves every interval that ends at the peak to a place `by` positions earlier.
void promote_peak(const std::vector<BufferInterval>& intervals, const MemoryPlan& plan, Order& order, std::size_t by) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto b = static_cast<std::size_t>(order[i]);
    if (plan.offsets[b] + intervals[b].bytes != plan.arena_bytes) continue;
    const std::size_t to = i - std::min(i, by);
    std::rotate(order.begin() + static_cast<std::ptrdiff_t>(to), order.begin() + static_cast<std::ptrdiff_t>(i),
                order.begin() + static_cast<std::ptrdiff_t>(i + 1));
  }
}

// The best plan on a walk from the order.
MemoryPlan walk(const std::vector<BufferInterval>& intervals, Order order, int rounds, int64_t bound,
                std::minstd_rand& random) {
  MemoryPlan best = place(intervals, order), current = best;
  Order best_order = order;
  for (int round = 0; round < rounds && best.arena_bytes > bound; ++round) {
    promote_peak(intervals, current, order, std::size_t{1} << (random() / 64 % (kLongestMove + 1)));
    current = place(intervals, order);
    if (current.arena_bytes < best.arena_bytes) {
      best = current;
      best_order = order;
    } else if (round % kLostRounds == kLostRounds - 1) {
      order = best_order;
      current = best;
    }
  }
  return best;
}

// Sizes rounded up to the alignment.
std::vector<BufferInterval> rounded(std::span<const BufferInterval> intervals, int64_t alignment) {
  std::vector<BufferInterval> out;
  int64_t total = 0;
  for (const BufferInterval& b : intervals) {
    if (b.bytes > INT64_MAX - alignment) throw DimOverflow();
    out.push_back({round_up(b.bytes, alignment), b.first, b.last});
    if (__builtin_add_overflow(total, out.back().bytes, &total)) throw DimOverflow();
  }
  return out;
}

}  // namespace

MemoryPlan plan_memory(std::span<const BufferInterval> input, int64_t alignment) {
  const std::vector<BufferInterval> intervals = rounded(input, alignment);
  const Peak peak = peak_of_sums(intervals);
  MemoryPlan best;
  best.arena_bytes = INT64_MAX;
  std::vector<std::pair<int64_t, Order>> starts;
  for (Order& order : first_orders(intervals, peak)) {
    MemoryPlan plan = place(intervals, order);
    starts.emplace_back(plan.arena_bytes, std::move(order));
    if (plan.arena_bytes < best.arena_bytes) best = std::move(plan);
    if (best.arena_bytes == peak.bytes) return best;
  }
  std::stable_sort(starts.begin(), starts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto n = static_cast<int64_t>(intervals.size());
  const int64_t affordable = kWalkBudget / std::max<int64_t>(n * n * static_cast<int64_t>(starts.size()), 1);
  const auto rounds = static_cast<int>(std::min<int64_t>(kWalkRounds, affordable));
  std::minstd_rand random;
  for (auto& [bytes, order] : starts) {
    if (best.arena_bytes == peak.bytes) break;
    MemoryPlan found = walk(intervals, std::move(order), rounds, peak.bytes, random);
    if (found.arena_bytes < best.arena_bytes) best = std::move(found);
  }
  return best;
}

}  // namespace fusec::runtime

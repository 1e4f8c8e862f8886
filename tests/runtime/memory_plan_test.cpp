// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "fusec/dim.h"

namespace fusec::runtime {
namespace {

bool conflict(const BufferInterval& a, int64_t at_a, const BufferInterval& b, int64_t at_b) {
  return a.first <= b.last && b.first <= a.last && at_a < at_b + b.bytes && at_b < at_a + a.bytes;
}

int64_t peak(const std::vector<BufferInterval>& intervals, int64_t alignment = 64) {
  int64_t most = 0;
  for (const BufferInterval& at : intervals) {
    int64_t sum = 0;
    for (const BufferInterval& b : intervals)
      sum += b.first <= at.first && at.first <= b.last ? (b.bytes + alignment - 1) / alignment * alignment : 0;
    most = std::max(most, sum);
  }
  return most;
}

// Like a network: mostly short lives, some long skips, sizes over three orders of magnitude.
std::vector<BufferInterval> random_blocks(std::mt19937& random) {
  std::vector<BufferInterval> intervals(10 + random() % 150);
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    const int first = static_cast<int>(i), life = random() % 4 == 0 ? 1 + random() % 20 : 1 + random() % 2;
    intervals[i] = {1 + static_cast<int64_t>(random() % (random() % 3 == 0 ? 500'000 : 5'000)), first, first + life};
  }
  return intervals;
}

TEST(MemoryPlan, LiveBlocksNeverOverlapAndThePeakIsNearTheBound) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const std::vector<BufferInterval> intervals = random_blocks(random);
    const MemoryPlan plan = plan_memory(intervals);
    for (std::size_t i = 0; i < intervals.size(); ++i) {
      ASSERT_EQ(plan.offsets[i] % 64, 0);
      ASSERT_GE(plan.offsets[i], 0);
      ASSERT_LE(plan.offsets[i] + intervals[i].bytes, plan.arena_bytes);
      for (std::size_t j = 0; j < i; ++j) {
        ASSERT_FALSE(conflict(intervals[i], plan.offsets[i], intervals[j], plan.offsets[j]))
            << "blocks " << i << " and " << j;
      }
    }
    EXPECT_LE(static_cast<double>(plan.arena_bytes), 1.05 * static_cast<double>(peak(intervals))) << "round " << round;
  }
}

// As a GPU's libraries ask for it: up to 4 MiB in the step of a call alone.
TEST(MemoryPlan, WorkspacesOfCallsFitBetweenTheOthers) {
  std::mt19937 random(8);
  for (int round = 0; round < 200; ++round) {
    std::vector<BufferInterval> intervals = random_blocks(random);
    const auto steps = static_cast<int>(intervals.size());
    for (int step = 0; step < steps; ++step)
      if (random() % 2 == 0) intervals.push_back({int64_t{1} << (10 + random() % 13), step, step});
    const MemoryPlan plan = plan_memory(intervals, 256);
    EXPECT_LE(static_cast<double>(plan.arena_bytes), 1.05 * static_cast<double>(peak(intervals, 256)))
        << "round " << round;
  }
}

TEST(MemoryPlan, IsDeterministic) {
  std::mt19937 random(11);
  const std::vector<BufferInterval> intervals = random_blocks(random);
  EXPECT_EQ(plan_memory(intervals).offsets, plan_memory(intervals).offsets);
}

TEST(MemoryPlan, EmptyAndZeroSizedBlocksTakeNothing) {
  EXPECT_EQ(plan_memory({}).arena_bytes, 0);
  const std::vector<BufferInterval> intervals = {{0, 0, 3}, {64, 1, 2}};
  EXPECT_EQ(plan_memory(intervals).arena_bytes, 64);
}

TEST(MemoryPlan, SizesPast63BitsAreRefused) {
  const std::vector<BufferInterval> sum = {{INT64_MAX / 2, 0, 1}, {INT64_MAX / 2, 0, 1}, {128, 0, 1}};
  EXPECT_THROW((void)plan_memory(sum), DimOverflow);
  const std::vector<BufferInterval> rounding = {{INT64_MAX, 0, 1}};
  EXPECT_THROW((void)plan_memory(rounding), DimOverflow);
}

TEST(MemoryPlan, ManyBlocksTakeBoundedTime) {
  std::vector<BufferInterval> chain(4000);
  for (std::size_t i = 0; i < chain.size(); ++i)
    chain[i] = {int64_t(64 * (1 + i % 97)), int(i), int(i) + 1 + int(i % 5)};
  EXPECT_GT(plan_memory(chain).arena_bytes, 0);
}

}  // namespace
}  // namespace fusec::runtime

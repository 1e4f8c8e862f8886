// SPDX-License-Identifier: Apache-2.0
// Regions, leases and teams of runtime/threads/parallel.h, and the OpenMP functions that oneDNN is given.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "runtime/threads/parallel.h"
#include "runtime/threads/team.h"

#if FUSEC_WITH_DNNL
extern "C" {
void FOMP_parallel_start(void (*function)(void*), void* data, unsigned threads);
void FOMP_parallel_end();
void FOMP_barrier();
bool FOMP_loop_static_start(long start, long end, long increment, long chunk, long* first, long* last);
bool FOMP_loop_static_next(long* first, long* last);
void FOMP_loop_end_nowait();
int fmp_get_max_threads();
int fmp_get_num_threads();
int fmp_get_thread_num();
int fmp_in_parallel();
}
#endif

namespace fusec::runtime {
namespace {

int64_t threads_of_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

TEST(ParallelFor, CoversEveryIterationOnce) {
  for (const auto& [threads, n] :
       {std::pair(1, 5), std::pair(4, 3), std::pair(4, 1000), std::pair(7, 0), std::pair(64, 100)}) {
    std::vector<std::atomic<int>> hits(static_cast<std::size_t>(n));
    parallel_for(threads, n, [&](int64_t begin, int64_t end, int thread) {
      EXPECT_LT(thread, threads);
      for (int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
    });
    for (const auto& hit : hits) EXPECT_EQ(hit, 1);
  }
}

TEST(ParallelFor, NestedCallsCoverEverythingToo) {
  std::atomic<int64_t> sum{0};
  parallel_for(3, 3, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      parallel_for(4, 100, [&](int64_t b, int64_t e, int) { sum += e - b; });
    }
  });
  EXPECT_EQ(sum, 300);
}

TEST(ParallelFor, ThreadsStayWhereRegionsDifferInSize) {
  const Lease lease(6);
  ASSERT_EQ(lease.threads(), 6);
  const int64_t before = threads_of_process();
  std::mutex mutex;
  std::set<std::thread::id> seen;
  for (int size : {6, 3, 6, 2, 5, 6}) {
    parallel_for(size, size, [&](int64_t, int64_t, int) {
      const std::lock_guard lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
  }
  EXPECT_EQ(threads_of_process(), before);
  EXPECT_EQ(seen.size(), 6u);
}

TEST(ParallelFor, SleepingWorkersAreWoken) {
  const Lease lease(4);
  std::atomic<int> parts{0};
  for (int round = 0; round < 50; ++round) {
    // Long enough, every few rounds, for a worker to go to sleep; whether it did changes nothing that is checked.
    for (Spin spin; round % 5 == 0 && spin();) {
    }
    parallel_for(4, 4, [&](int64_t, int64_t, int) { ++parts; });
  }
  EXPECT_EQ(parts, 200);
}

TEST(ParallelFor, ManyThreadsHaveTeamsOfTheirOwn) {
  std::atomic<int64_t> sum{0};
  std::vector<std::jthread> hosts;
  for (int t = 0; t < 5; ++t) {
    hosts.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        parallel_for(1 + round % 4, 100, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
      }
    });
  }
  hosts.clear();
  EXPECT_EQ(sum, 5 * 200 * 100);
}

TEST(Lease, TakesTheThreadsOfALargerOneAndHasOneInsideOfARegion) {
  const Lease outer(4);
  EXPECT_EQ(Lease(3).threads(), 3);
  EXPECT_EQ(Lease(1).threads(), 1);
  EXPECT_EQ(Lease(5).threads(), 5);
  EXPECT_EQ(outer.threads(), 4);
  std::atomic<int> inside{0};
  parallel_for(4, 4, [&](int64_t, int64_t, int) { inside += Lease(4).threads(); });
  EXPECT_EQ(inside, 4);
}

// Two threads per lease at most, counted.
class CountingExecutor final : public Executor {
 public:
  class Pair final : public LeasedThreads {
   public:
    int threads() const override { return 2; }
    void start(int parts, PartFn fn) override {
      ++regions;
      if (parts > 1) other_ = std::jthread([fn] { fn(1); });
    }
    void finish() override { other_ = {}; }
    int regions = 0;

   private:
    std::jthread other_;
  };
  LeasedThreads* lease(int) override {
    ++leases;
    return &pair;
  }
  void give_back(LeasedThreads* leased) override { returned += leased == &pair; }
  Pair pair;
  int leases = 0, returned = 0;
};

TEST(Executor, AnEmbeddingProgramGivesItsOwnThreads) {
  CountingExecutor own;
  set_executor(&own);
  std::vector<std::atomic<int>> hits(10);
  parallel_for(5, 10, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
  });
  set_executor(nullptr);
  for (const auto& hit : hits) EXPECT_EQ(hit, 1);
  EXPECT_EQ(own.leases, 1);
  EXPECT_EQ(own.returned, 1);
  EXPECT_EQ(own.pair.regions, 1);
}

// Whatever thread runs a part: a region that it begins has one thread.
TEST(Executor, ItsThreadsKnowThatTheyAreInARegion) {
  CountingExecutor own;
  set_executor(&own);
  std::atomic<int> threads{0};
  parallel_for(2, 2, [&](int64_t, int64_t, int) { threads += Lease(2).threads(); });
  set_executor(nullptr);
  EXPECT_EQ(threads, 2);
  EXPECT_EQ(own.leases, 1);
}

#if FUSEC_WITH_DNNL

// A region as a compiler writes it: `body` on every thread, this one included.
template <class Body>
void openmp_region(unsigned threads, const Body& body) {
  const auto call = [](void* data) { (*static_cast<const Body*>(data))(); };
  void* const data = const_cast<Body*>(&body);
  FOMP_parallel_start(call, data, threads);
  call(data);
  FOMP_parallel_end();
}

TEST(OpenMp, ARegionHasItsThreadsAndNestedOnesHaveOne) {
  std::mutex mutex;
  std::set<int> numbers;
  std::atomic<int> wrong{0};
  EXPECT_FALSE(fmp_in_parallel());
  openmp_region(5, [&] {
    wrong += fmp_get_num_threads() != 5 || !fmp_in_parallel();
    openmp_region(3, [&] { wrong += fmp_get_num_threads() != 1 || fmp_get_thread_num() != 0; });
    const std::lock_guard lock(mutex);
    numbers.insert(fmp_get_thread_num());
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(numbers, (std::set<int>{0, 1, 2, 3, 4}));
  EXPECT_FALSE(fmp_in_parallel());
  EXPECT_EQ(fmp_get_num_threads(), 1);
  openmp_region(1, [&] { wrong += fmp_get_num_threads() != 1; });
  EXPECT_EQ(wrong, 0);
}

TEST(OpenMp, ThreadsOfAnotherExecutorHaveTheirNumbers) {
  CountingExecutor own;
  set_executor(&own);
  std::mutex mutex;
  std::set<int> numbers;
  std::atomic<int> wrong{0};
  openmp_region(2, [&] {
    wrong += fmp_get_num_threads() != 2 || !fmp_in_parallel();
    const std::lock_guard lock(mutex);
    numbers.insert(fmp_get_thread_num());
  });
  set_executor(nullptr);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(numbers, (std::set<int>{0, 1}));
}

TEST(OpenMp, ThreadCountSaysHowManyThreadsARegionHas) {
  const ThreadCount count(3);
  EXPECT_EQ(fmp_get_max_threads(), 3);
  std::atomic<int> threads{0}, most{0};
  openmp_region(0, [&] {
    ++threads;
    most += fmp_get_max_threads();
  });
  EXPECT_EQ(threads, 3);
  EXPECT_EQ(most, 9);
}

TEST(OpenMp, ABarrierLetsNobodyThroughBeforeAllHaveCome) {
  constexpr int kThreads = 4, kRounds = 300;
  std::atomic<int> came{0}, wrong{0};
  openmp_region(kThreads, [&] {
    for (int round = 1; round <= kRounds; ++round) {
      ++came;
      FOMP_barrier();
      wrong += came < kThreads * round;
      FOMP_barrier();
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(came, kThreads * kRounds);
}

TEST(OpenMp, StaticLoopsCoverEveryIterationOnce) {
  struct Case {
    long start, end, increment, chunk;
  };
  for (const Case& c :
       {Case{0, 100, 1, 0}, Case{0, 3, 1, 0}, Case{5, 5, 1, 0}, Case{0, 100, 7, 0}, Case{10, -10, -3, 0},
        Case{0, 100, 1, 1}, Case{0, 101, 1, 8}, Case{3, 50, 4, 2}, Case{9, 0, -1, 2}}) {
    std::mutex mutex;
    std::vector<long> seen, expected;
    for (long i = c.start; c.increment > 0 ? i < c.end : i > c.end; i += c.increment) expected.push_back(i);
    openmp_region(4, [&] {
      long first = 0, last = 0;
      for (bool more = FOMP_loop_static_start(c.start, c.end, c.increment, c.chunk, &first, &last); more;
           more = FOMP_loop_static_next(&first, &last)) {
        const std::lock_guard lock(mutex);
        for (long i = first; c.increment > 0 ? i < last : i > last; i += c.increment) seen.push_back(i);
      }
      FOMP_loop_end_nowait();
    });
    std::sort(seen.begin(), seen.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(seen, expected) << c.start << " " << c.end << " " << c.increment << " " << c.chunk;
  }
}

#endif

}  // namespace
}  // namespace fusec::runtime

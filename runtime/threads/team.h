// SPDX-License-Identifier: Apache-2.0
// Teams of worker threads, the Executor that fusec has of its own, and the region that a thread runs, which
// parallel_for and the OpenMP functions share. While a team is leased its workers spin between regions, which then
// begin and end within about a microsecond; a worker sleeps when it sees that another thread wants its processor, and
// soon after its team was given back.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/threads/parallel.h"

namespace fusec::runtime {

// What a thread knows of the region that it is in.
struct ParallelRegion {
  int part = 0, parts = 1;
  bool inside = false;  // in a region of several parts; regions begun here have one
};

struct ThreadState {
  ParallelRegion region;
  LeasedThreads* leased = nullptr;    // by this thread
  int openmp_threads = 0;             // that libraries use; 0: not said
  const HostThreads* host = nullptr;  // by which regions run; null: on the Executor's threads
};

ThreadState& this_thread();

// While alive, this thread runs that part of a region.
class InRegion {
 public:
  InRegion(int part, int parts) : saved_(std::exchange(this_thread().region, {part, parts, true})) {}
  ~InRegion() { this_thread().region = saved_; }
  InRegion(const InRegion&) = delete;
  InRegion& operator=(const InRegion&) = delete;

 private:
  ParallelRegion saved_;
};

// A short wait, to be repeated: `pause`, and now and then the processor for whoever wants it.
class Spin {
 public:
  // False where another thread took the processor, or after `longest`: better to sleep, where there is a way.
  bool operator()(std::chrono::microseconds longest = std::chrono::milliseconds(5));

 private:
  int count_ = 0;
  std::chrono::steady_clock::time_point start_;
};

// A thread and its mailbox. What the leasing thread writes and what the worker writes lie in cache lines of their own.
struct alignas(64) Worker {
  std::atomic<uint32_t> begun{0};  // regions given to this worker
  alignas(64) std::atomic<uint32_t> ended{0};
  std::atomic<uint32_t> sleeps{0};  // 1: it sleeps or is about to
};

class Team final : public LeasedThreads {
 public:
  Team() = default;
  ~Team() override;  // while nobody leases it
  // Starts workers up to `threads` threads in all, as many of them as can be had.
  void grow(int threads);

  int threads() const override { return 1 + static_cast<int>(workers_.size()); }
  void start(int parts, PartFn fn) override;
  void finish() override;

  void set_leased(bool leased) { leased_.store(leased, std::memory_order_relaxed); }

 private:
  void give(Worker& worker);
  void notify_sleepers(int workers);  // of the first `workers` workers
  void work(Worker& worker, int part);
  // Waits until the worker has a region beyond `done`.
  void await(Worker& worker, uint32_t done);

  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::thread> handles_;
  alignas(64) std::atomic<bool> leased_{false};
  alignas(64) std::atomic<int> sleepers_{0};    // workers that sleep or are about to
  alignas(64) std::atomic<bool> waits_{false};  // the leasing thread sleeps or is about to
  alignas(64) PartFn fn_;                       // null: the team ends
  int parts_ = 1;
};

// Teams that nobody leases, by size. A child made by fork has none of its parent's threads and starts with an empty
// pool.
class TeamPool final : public Executor {
 public:
  LeasedThreads* lease(int wanted) override;
  void give_back(LeasedThreads* leased) override;

 private:
  std::unique_ptr<Team> take_idle(int wanted);
  void end_idle_teams();

  static constexpr std::size_t kMaxIdle =
      64;  // what runs side by side beyond these gives its threads back to the system

  std::mutex mutex_;
  std::array<std::unique_ptr<Team>, kMaxIdle> idle_;
  std::size_t count_ = 0;  // of idle_
};

}  // namespace fusec::runtime

// SPDX-License-Identifier: Apache-2.0
// The one seam through which host work is split over threads. Our loops and oneDNN's (runtime/threads/openmp.cpp) run
// on the Executor of the process: teams of worker threads (runtime/threads/team.h), unless an embedding program gives
// its own. Engines with Options::host_threads split their loops by a function of the host instead.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "fusec/host.h"

namespace fusec::runtime {

// A reference to a callable void(int64_t begin, int64_t end, int thread); valid while the callable lives.
class RangeFn {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, RangeFn>) RangeFn(const F& f)  // NOLINT: implicit by design
      : object_(std::addressof(f)), call_([](const void* object, int64_t begin, int64_t end, int thread) {
          (*static_cast<const F*>(object))(begin, end, thread);
        }) {}
  void operator()(int64_t begin, int64_t end, int thread) const { call_(object_, begin, end, thread); }

 private:
  const void* object_;
  void (*call_)(const void*, int64_t, int64_t, int);
};

// What each thread of a region runs: function(argument, part).
struct PartFn {
  void (*function)(void* argument, int part) = nullptr;
  void* argument = nullptr;
  void operator()(int part) const { function(argument, part); }
};

// Threads that one run has for itself. start and finish come in pairs, from the thread that leased them.
class LeasedThreads {
 public:
  virtual ~LeasedThreads() = default;
  virtual int threads() const = 0;  // the leasing thread is one of them
  // Begins parts 1 .. parts-1 (parts <= threads()) on other threads, all in progress at once; part 0 is the caller's.
  virtual void start(int parts, PartFn fn) = 0;
  // Returns when the parts that start began have returned.
  virtual void finish() = 0;
};

// Where threads come from. Thread-safe.
class Executor {
 public:
  virtual ~Executor() = default;
  // Up to `wanted` threads, fewer where no more can be had; null: the caller alone.
  virtual LeasedThreads* lease(int wanted) = 0;
  virtual void give_back(LeasedThreads* leased) = 0;
};

// Threads come from `executor` from here on, which must outlive its last use; null: from our own teams. Leases that are
// held stay with the one they came from.
void set_executor(Executor* executor);

// While alive, regions of this thread run by HostThreads::parallel_for, and a Lease has what its count allows; null: as
// before. It must outlive this.
class OnHostThreads {
 public:
  explicit OnHostThreads(const HostThreads* host);
  ~OnHostThreads();
  OnHostThreads(const OnHostThreads&) = delete;
  OnHostThreads& operator=(const OnHostThreads&) = delete;

 private:
  const HostThreads* saved_;
};

// While alive, regions of this thread run on the threads it leased: they need no wake-up between regions. A Lease
// inside of another that is large enough takes that one's threads; inside of a region it has one thread.
class Lease {
 public:
  explicit Lease(int threads);
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  int threads() const { return threads_; }

 private:
  int threads_ = 1;
  Executor* executor_ = nullptr;
  LeasedThreads* leased_ = nullptr;    // of its own; null: the thread's as before
  LeasedThreads* previous_ = nullptr;  // that leased_ stands in for
};

// Calls fn on disjoint contiguous ranges that cover 0 .. iterations-1, one per part, `thread` in 0 .. threads-1, and
// returns when all are done. Ranges depend on (iterations, threads) alone; where fewer threads can be had, or inside of
// another region, a thread takes several parts. fn must not throw.
void parallel_for(int threads, int64_t iterations, RangeFn fn);

// Begin of part `i` of `parts` equal parts of n; the first `n % parts` parts are one longer. No overflow for any n.
constexpr int64_t part_begin(int64_t n, int64_t parts, int64_t i) {
  return n / parts * i + (i < n % parts ? i : n % parts);
}

// While alive, libraries called from this thread that ask OpenMP use `threads` threads.
class ThreadCount {
 public:
  explicit ThreadCount(int threads);
  ~ThreadCount();
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int saved_;
};

}  // namespace fusec::runtime

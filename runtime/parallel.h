// SPDX-License-Identifier: Apache-2.0
// The one seam through which host work is split over threads.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace fusec::runtime {

// A reference to a callable void(int64_t begin, int64_t end, int thread); valid while the callable lives.
class RangeFn {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, RangeFn>)
  RangeFn(const F& f)  // NOLINT: implicit by design
      : object_(std::addressof(f)), call_([](const void* object, int64_t begin, int64_t end, int thread) {
          (*static_cast<const F*>(object))(begin, end, thread);
        }) {}
  void operator()(int64_t begin, int64_t end, int thread) const { call_(object_, begin, end, thread); }

 private:
  const void* object_;
  void (*call_)(const void*, int64_t, int64_t, int);
};

// Calls fn on disjoint contiguous ranges that cover 0 .. iterations-1, one per thread, `thread` in 0 .. threads-1, and
// returns when all are done. Ranges depend on (iterations, threads) alone. fn must not throw. With OpenMP the team is
// the pool that oneDNN uses too; thread sanitizer builds use std::thread, which the sanitizer understands.
void parallel_for(int threads, int64_t iterations, RangeFn fn);

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

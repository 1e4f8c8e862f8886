// SPDX-License-Identifier: Apache-2.0
// Loops over threads that are started per call: for the evaluator, passes, compiling kernels and binding library steps.
// Runs use runtime/threads, whose workers are kept.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace fusec::ir {

// Calls work(i) for 0 .. n-1 on up to `threads` threads, each of which takes the next i when it has finished one. The
// first exception of a call is rethrown here after all calls have ended.
template <class Work>
void for_each_parallel(int threads, int64_t n, const Work& work) {
  std::exception_ptr failure;
  std::mutex failure_mutex;
  std::atomic<int64_t> next{0};
  const auto drain = [&] {
    for (int64_t i = next++; i < n; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(failure_mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    try {
      for (int64_t t = 1; t < std::min<int64_t>(n, threads); ++t) helpers.emplace_back(drain);
    } catch (...) {
      // The system grants no more threads or memory for them. The threads that exist do the work.
    }
    drain();
  }
  if (failure) std::rethrow_exception(failure);
}

// Calls body(begin, end) on disjoint ranges that cover [0, n), on up to `threads` threads (<= 0: all of the machine's).
// Each range has at least `grain` elements. The first exception of a body is rethrown here after all bodies have ended.
template <class Body>
void parallel_for(int threads, int64_t n, int64_t grain, const Body& body) {
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int64_t parts = std::clamp<int64_t>(n / std::max<int64_t>(grain, 1), 1, threads);
  if (n <= 0) return;
  if (parts == 1) return body(int64_t{0}, n);
  const int64_t base = n / parts, extra = n % parts;
  for_each_parallel(static_cast<int>(parts), parts, [&](int64_t part) {
    const int64_t begin = part * base + std::min(part, extra);
    body(begin, begin + base + (part < extra ? 1 : 0));
  });
}

}  // namespace fusec::ir

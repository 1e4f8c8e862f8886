// SPDX-License-Identifier: Apache-2.0
// parallel_for for slow, plain code (the evaluator): threads are started per call, and ranges are fixed beforehand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace fusec::ir {

// Calls body(begin, end) on disjoint ranges that cover [0, n), on up to `threads` threads (<= 0: all of the machine's).
// Each range has at least `grain` elements. The first exception of a body is rethrown here after all bodies have ended.
template <class Body>
void parallel_for(int threads, int64_t n, int64_t grain, const Body& body) {
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int64_t parts = std::clamp<int64_t>(n / std::max<int64_t>(grain, 1), 1, threads);
  if (n <= 0) return;
  if (parts == 1) return body(int64_t{0}, n);

  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto run_part = [&](int64_t part) {
    try {
      const int64_t base = n / parts, extra = n % parts;
      const int64_t begin = part * base + std::min(part, extra);
      body(begin, begin + base + (part < extra ? 1 : 0));
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> workers;
  workers.reserve(static_cast<std::size_t>(parts));
  int64_t started = 1;
  try {
    for (; started < parts; ++started) workers.emplace_back(run_part, started);
  } catch (...) {
    // No more threads, or no memory for them: the remaining ranges run here.
  }
  run_part(0);
  for (; started < parts; ++started) run_part(started);
  for (std::thread& worker : workers) worker.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace fusec::ir

// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel.h"

#if defined(_OPENMP) && !defined(__SANITIZE_THREAD__)
#include <omp.h>
#else
#include <thread>
#include <vector>
#endif

namespace fusec::runtime {
namespace {

// Begin of part `i` of `parts` equal parts; the first `n % parts` parts are one longer. No overflow for any n.
int64_t part_begin(int64_t n, int64_t parts, int64_t i) { return n / parts * i + (i < n % parts ? i : n % parts); }

}  // namespace

#if defined(_OPENMP) && !defined(__SANITIZE_THREAD__)

void parallel_for(int threads, int64_t iterations, RangeFn fn) {
  int parts = static_cast<int>(threads < iterations ? threads : iterations);
  if (parts <= 1) {
    if (iterations > 0) fn(0, iterations, 0);
    return;
  }
  // OpenMP may give fewer threads than asked for (nested regions, limits): each then takes several parts.
#pragma omp parallel num_threads(parts)
  {
    int team = omp_get_num_threads();
    for (int part = omp_get_thread_num(); part < parts; part += team) {
      fn(part_begin(iterations, parts, part), part_begin(iterations, parts, part + 1), part);
    }
  }
}

ThreadCount::ThreadCount(int threads) : saved_(omp_get_max_threads()) {
  omp_set_num_threads(threads > 0 ? threads : 1);
}
ThreadCount::~ThreadCount() { omp_set_num_threads(saved_); }

#else

void parallel_for(int threads, int64_t iterations, RangeFn fn) {
  int parts = static_cast<int>(threads < iterations ? threads : iterations);
  if (parts <= 1) {
    if (iterations > 0) fn(0, iterations, 0);
    return;
  }
  std::vector<std::thread> team;
  for (int part = 1; part < parts; ++part) {
    team.emplace_back([=] { fn(part_begin(iterations, parts, part), part_begin(iterations, parts, part + 1), part); });
  }
  fn(0, part_begin(iterations, parts, 1), 0);
  for (std::thread& thread : team) thread.join();
}

ThreadCount::ThreadCount(int threads) : saved_(threads) {}
ThreadCount::~ThreadCount() = default;

#endif

}  // namespace fusec::runtime

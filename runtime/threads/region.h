// SPDX-License-Identifier: Apache-2.0
// The region that a thread runs, which parallel_for and the OpenMP functions share.
#pragma once

#include <chrono>
#include <utility>

#include "runtime/threads/parallel.h"

namespace fusec::runtime {

// What a thread knows of the region that it is in.
struct ParallelRegion {
  int part = 0, parts = 1;
  bool inside = false;  // in a region of several parts; regions begun here have one
};

struct ThreadState {
  ParallelRegion region;
  LeasedThreads* leased = nullptr;  // by this thread
  int openmp_threads = 0;           // that libraries use; 0: not said
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

}  // namespace fusec::runtime

// SPDX-License-Identifier: Apache-2.0
// Implements the OpenMP entry points that oneDNN calls, on top of the Executor of runtime/threads/parallel.h.
// cmake/own_openmp.py renames the GNU OpenMP symbols of our copy of oneDNN to the names in this file. Regions have the
// semantics of GNU OpenMP (`num_threads` 0 means `omp_get_max_threads`, nested regions have one thread, static loops
// are split as in libgomp). Unlike GNU OpenMP, a smaller region does not end threads of the team, and a failure to
// start threads does not end the process.

#include <atomic>
#include <new>
#include <thread>
#include <utility>

#include "runtime/device/host/process.h"
#include "runtime/threads/team.h"

#define FUSEC_OPENMP extern "C" __attribute__((visibility("default"), used))

namespace fusec::runtime {
namespace {

// One region's code and barrier, owned by the thread that began it.
struct SharedRegion {
  void (*function)(void*) = nullptr;
  void* data = nullptr;
  int parts = 1, openmp_threads = 0;
  std::atomic<int> arrived{0};
  std::atomic<uint32_t> barriers{0};  // passed
};

struct StaticLoop {
  long start = 0, increment = 1, iterations = 0, chunk = 0, turn = 0;
};

// Trivially destructible, so no destructor runs when a thread ends.
struct OpenMpState {
  SharedRegion* region = nullptr;  // that this thread runs a part of
  alignas(SharedRegion) unsigned char own[sizeof(SharedRegion)];
  alignas(Lease) unsigned char lease[sizeof(Lease)];
  int nested = 0;
  ParallelRegion outer;  // of nested regions
  StaticLoop loop;

  SharedRegion& own_region() { return *std::launder(reinterpret_cast<SharedRegion*>(own)); }
  Lease& own_lease() { return *std::launder(reinterpret_cast<Lease*>(lease)); }
};

OpenMpState& openmp() {
  thread_local OpenMpState state;
  return state;
}

void run_part(void* argument, int part) {
  auto& region = *static_cast<SharedRegion*>(argument);
  OpenMpState& state = openmp();
  const FloatEnv env;
  const InRegion inside(part, region.parts);
  this_thread().openmp_threads = region.openmp_threads;
  state.region = &region;
  region.function(region.data);
  state.region = nullptr;
}

int max_threads() {
  static const int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (this_thread().host != nullptr) return 1;
  const int said = this_thread().openmp_threads;
  return said > 0 ? said : cores > 0 ? cores : 1;
}

// Sets [first, end) to the iterations of the loop's next chunk on this thread; returns false if there is none.
bool next_turn(StaticLoop& loop, long* first, long* end) {
  const ParallelRegion& region = this_thread().region;
  const long parts = region.parts, part = region.part;
  long from, to;
  if (loop.chunk == 0) {
    if (loop.turn > 0) return false;
    const long share = loop.iterations / parts, longer = loop.iterations % parts;
    from = share * part + (part < longer ? part : longer);
    to = from + share + (part < longer ? 1 : 0);
  } else {
    from = (loop.turn * parts + part) * loop.chunk;
    to = from + loop.chunk < loop.iterations ? from + loop.chunk : loop.iterations;
  }
  if (from >= to) return false;
  ++loop.turn;
  *first = loop.start + from * loop.increment;
  *end = loop.start + to * loop.increment;
  return true;
}

}  // namespace

FUSEC_OPENMP void FOMP_parallel_start(void (*function)(void*), void* data, unsigned threads) {
  ThreadState& thread = this_thread();
  OpenMpState& state = openmp();
  const int wanted = threads > 0 ? static_cast<int>(threads) : max_threads();
  if (!thread.region.inside && wanted > 1 && thread.host == nullptr) {
    const Lease& lease = *new (state.lease) Lease(wanted);
    if (lease.threads() > 1) {
      SharedRegion& region =
          *new (state.own) SharedRegion{function, data, lease.threads(), thread.openmp_threads, 0, 0};
      thread.region = {0, region.parts, true};
      state.region = &region;
      thread.leased->start(region.parts, {run_part, &region});
      return;
    }
    lease.~Lease();
  }
  if (state.nested++ == 0) state.outer = std::exchange(thread.region, {0, 1, true});
}

FUSEC_OPENMP void FOMP_parallel_end() {
  ThreadState& thread = this_thread();
  OpenMpState& state = openmp();
  if (state.nested > 0) {
    if (--state.nested == 0) thread.region = state.outer;
    return;
  }
  thread.leased->finish();
  thread.region = {};
  state.region = nullptr;
  state.own_region().~SharedRegion();
  state.own_lease().~Lease();
}

FUSEC_OPENMP void FOMP_barrier() {
  SharedRegion* const region = openmp().region;
  if (region == nullptr || openmp().nested > 0) return;
  const uint32_t passed = region->barriers.load(std::memory_order_acquire);
  if (region->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == region->parts) {
    region->arrived.store(0, std::memory_order_relaxed);
    region->barriers.store(passed + 1, std::memory_order_release);
    return;
  }
  for (Spin spin; region->barriers.load(std::memory_order_acquire) == passed;) spin();
}

FUSEC_OPENMP bool FOMP_loop_static_next(long* first, long* end) { return next_turn(openmp().loop, first, end); }

FUSEC_OPENMP bool FOMP_loop_static_start(long start, long end, long increment, long chunk, long* first, long* last) {
  const long span = increment > 0 ? end - start + increment - 1 : end - start + increment + 1;
  const long iterations = (increment > 0 ? start < end : start > end) ? span / increment : 0;
  openmp().loop = {start, increment, iterations, chunk, 0};
  return next_turn(openmp().loop, first, last);
}

FUSEC_OPENMP void FOMP_loop_end_nowait() {}

FUSEC_OPENMP int fmp_get_max_threads() { return max_threads(); }
FUSEC_OPENMP int fmp_get_num_threads() { return this_thread().region.parts; }
FUSEC_OPENMP int fmp_get_thread_num() { return this_thread().region.part; }
FUSEC_OPENMP int fmp_in_parallel() { return this_thread().region.inside ? 1 : 0; }

}  // namespace fusec::runtime

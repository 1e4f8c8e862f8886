// SPDX-License-Identifier: Apache-2.0
// Implements Lease and `parallel_for`, which split host work over the threads of the Executor. In a child made by fork
// it forgets the teams of the parent, whose threads do not exist there.

#include "runtime/threads/parallel.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "runtime/device/host/process.h"
#include "runtime/threads/team.h"

namespace fusec::runtime {
namespace {

std::atomic<Executor*> own_executor{
    nullptr};  // TeamPool of this process; never deleted, its workers outlive static objects
std::atomic<Executor*> given_executor{nullptr};

// In the child, the threads of the parent do not exist, and the state behind the pool's lock may be inconsistent.
void forget_teams() {
  own_executor = nullptr;
  this_thread() = {};
}

// Null: no memory for one.
Executor* executor() {
  if (Executor* given = given_executor.load(std::memory_order_acquire)) return given;
  Executor* own = own_executor.load(std::memory_order_acquire);
  if (own != nullptr) return own;
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, forget_teams);
  auto* const made = new (std::nothrow) TeamPool;
  if (made == nullptr || own_executor.compare_exchange_strong(own, made)) return made;
  delete made;
  return own;
}

struct Loop {
  const RangeFn& fn;
  int64_t iterations;
  int parts, threads;

  void run(int thread) const {
    for (int part = thread; part < parts; part += threads) {
      fn(part_begin(iterations, parts, part), part_begin(iterations, parts, part + 1), part);
    }
  }
};

// Some of the parts, on a thread of the host.
void run_on_host(void* argument, int64_t begin, int64_t end) {
  const auto& loop = *static_cast<const Loop*>(argument);
  const FloatEnv env;
  const InRegion inside(static_cast<int>(begin), loop.parts);
  for (int64_t part = begin; part < end; ++part) {
    loop.fn(part_begin(loop.iterations, loop.parts, part), part_begin(loop.iterations, loop.parts, part + 1),
            static_cast<int>(part));
  }
}

void run_parts(void* argument, int part) {
  const auto& loop = *static_cast<const Loop*>(argument);
  const FloatEnv env;
  const InRegion inside(part, loop.threads);
  loop.run(part);
}

}  // namespace

ThreadState& this_thread() {
  thread_local ThreadState state;
  return state;
}

bool Spin::operator()(std::chrono::microseconds longest) {
  using Clock = std::chrono::steady_clock;
  constexpr int kPauses = 512, kPausesPerYield = 32;  // a pause takes 15 to 70 ns
  constexpr std::chrono::microseconds kAlone(20);     // longer than a yield takes where nobody wants the processor
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
  if (++count_ < kPauses || count_ % kPausesPerYield != 0) return true;
  const Clock::time_point before = Clock::now();
  if (count_ == kPauses) start_ = before;
  sched_yield();
  const Clock::time_point after = Clock::now();
  return after - before < kAlone && after - start_ < longest;
}

void set_executor(Executor* executor) { given_executor = executor; }

OnHostThreads::OnHostThreads(const HostThreads* host)
    : saved_(std::exchange(this_thread().host, host == nullptr ? this_thread().host : host)) {}
OnHostThreads::~OnHostThreads() { this_thread().host = saved_; }

Lease::Lease(int threads) {
  ThreadState& state = this_thread();
  if (threads <= 1 || state.region.inside) return;
  if (state.host != nullptr) {
    threads_ = std::clamp(state.host->count(), 1, threads);
    return;
  }
  if (state.leased == nullptr || state.leased->threads() < threads) {
    executor_ = executor();
    if (executor_ != nullptr) leased_ = executor_->lease(threads);
    if (leased_ == nullptr) return;
    previous_ = std::exchange(state.leased, leased_);
  }
  threads_ = std::min(threads, state.leased->threads());
}

Lease::~Lease() {
  if (leased_ == nullptr) return;
  this_thread().leased = previous_;
  executor_->give_back(leased_);
}

void parallel_for(int threads, int64_t iterations, RangeFn fn) {
  const int parts = static_cast<int>(std::min<int64_t>(threads, iterations));
  if (parts <= 1) {
    if (iterations > 0) fn(0, iterations, 0);
    return;
  }
  const Lease lease(parts);
  Loop loop{fn, iterations, parts, lease.threads()};
  if (loop.threads == 1) return loop.run(0);
  if (const HostThreads* const host = this_thread().host) return host->parallel_for(parts, run_on_host, &loop);
  LeasedThreads& leased = *this_thread().leased;
  const InRegion inside(0, loop.threads);
  leased.start(loop.threads, {run_parts, &loop});
  loop.run(0);
  leased.finish();
}

ThreadCount::ThreadCount(int threads) : saved_(std::exchange(this_thread().openmp_threads, std::max(threads, 1))) {}
ThreadCount::~ThreadCount() { this_thread().openmp_threads = saved_; }

}  // namespace fusec::runtime

// SPDX-License-Identifier: Apache-2.0
// Implements the process's own Executor: teams of workers that spin between regions and sleep when idle, and the pool
// of teams that are not leased. If the system grants no more threads, a team stays smaller; this is not an error.

#include "runtime/threads/team.h"

#include <signal.h>

#include <algorithm>
#include <new>
#include <system_error>

namespace fusec::runtime {
namespace {

// How long the workers of an idle and of a leased team spin. An idle team spins for a while, so that the next run of a
// loop finds it awake.
constexpr std::chrono::microseconds kSpinAfterRun(200), kSpinInRun(5000);

// Blocks all signals for threads that are started meanwhile: signals belong to the host program.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &saved_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t saved_;
};

}  // namespace

void Team::grow(int threads) {
  if (this->threads() >= threads) return;
  const SignalsBlocked blocked;
  try {
    for (int part = this->threads(); part < threads; ++part) {
      auto worker = std::make_unique<Worker>();
      workers_.reserve(static_cast<std::size_t>(part));
      handles_.emplace_back([this, &own = *worker, part] { work(own, part); });
      workers_.push_back(std::move(worker));
    }
  } catch (const std::bad_alloc&) {     // there is no memory for more,
  } catch (const std::system_error&) {  // or the system gives no more
  }
}

Team::~Team() {
  fn_ = {};
  for (const std::unique_ptr<Worker>& worker : workers_) give(*worker);
  notify_sleepers(static_cast<int>(workers_.size()));
  for (std::thread& handle : handles_) handle.join();
}

void Team::give(Worker& worker) {
  worker.begun.store(worker.begun.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

// Both sides change sleepers_ and the worker's `sleeps`: a worker before it looks for a region for the last time, the
// leasing thread after it gave the regions. Whoever comes second sees what the first did before. Workers that sleep
// through narrow regions keep sleepers_ above 0, so each worker is asked as well: a call of the system takes longer.
void Team::notify_sleepers(int workers) {
  if (sleepers_.fetch_add(0, std::memory_order_acq_rel) == 0) return;
  for (int i = 0; i < workers; ++i) {
    Worker& worker = *workers_[static_cast<std::size_t>(i)];
    if (worker.sleeps.fetch_add(0, std::memory_order_acq_rel) != 0) worker.begun.notify_one();
  }
}

void Team::start(int parts, PartFn fn) {
  fn_ = fn;
  parts_ = parts;
  for (int i = 0; i + 1 < parts; ++i) give(*workers_[static_cast<std::size_t>(i)]);
  notify_sleepers(parts - 1);
}

void Team::finish() {
  for (int i = 0; i + 1 < parts_; ++i) {
    const Worker& worker = *workers_[static_cast<std::size_t>(i)];
    const uint32_t begun = worker.begun.load(std::memory_order_relaxed);
    for (Spin spin; worker.ended.load(std::memory_order_acquire) != begun;) {
      if (spin()) continue;
      waits_.store(true, std::memory_order_seq_cst);
      worker.ended.wait(begun - 1, std::memory_order_seq_cst);
      waits_.store(false, std::memory_order_relaxed);
    }
  }
}

void Team::await(Worker& worker, uint32_t done) {
  for (Spin spin; worker.begun.load(std::memory_order_acquire) == done;) {
    if (spin(leased_.load(std::memory_order_relaxed) ? kSpinInRun : kSpinAfterRun)) continue;
    worker.sleeps.fetch_add(1, std::memory_order_acq_rel);
    sleepers_.fetch_add(1, std::memory_order_acq_rel);
    worker.begun.wait(done, std::memory_order_acquire);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    worker.sleeps.fetch_sub(1, std::memory_order_relaxed);
    spin = {};
  }
}

void Team::work(Worker& worker, int part) {
  for (uint32_t done = 0;; ++done) {
    await(worker, done);
    if (fn_.function == nullptr) return;
    fn_(part);
    worker.ended.store(done + 1, std::memory_order_seq_cst);
    if (waits_.load(std::memory_order_seq_cst)) worker.ended.notify_one();
  }
}

std::unique_ptr<Team> TeamPool::take_idle(int wanted) {
  const std::lock_guard lock(mutex_);
  std::size_t best = count_;
  for (std::size_t i = 0; i < count_; ++i) {
    const int threads = idle_[i]->threads();
    const int before = best < count_ ? idle_[best]->threads() : 0;
    // Takes the smallest team that is large enough, else the largest one, which is then grown.
    if (best == count_ || (threads >= wanted ? before < wanted || threads < before : threads > before)) best = i;
  }
  if (best == count_) return nullptr;
  std::unique_ptr<Team> team = std::move(idle_[best]);
  idle_[best] = std::move(idle_[--count_]);
  return team;
}

void TeamPool::end_idle_teams() {
  std::array<std::unique_ptr<Team>, kMaxIdle> idle;
  const std::lock_guard lock(mutex_);
  for (; count_ > 0; --count_) idle[count_ - 1] = std::move(idle_[count_ - 1]);
}

LeasedThreads* TeamPool::lease(int wanted) {
  std::unique_ptr<Team> team = take_idle(wanted);
  if (team == nullptr) team.reset(new (std::nothrow) Team);
  if (team == nullptr) return nullptr;
  team->grow(wanted);
  if (team->threads() < wanted) {
    end_idle_teams();  // whose threads count against the same limit
    team->grow(wanted);
  }
  team->set_leased(true);
  return team.release();
}

void TeamPool::give_back(LeasedThreads* leased) {
  std::unique_ptr<Team> team(static_cast<Team*>(leased));
  team->set_leased(false);
  const std::lock_guard lock(mutex_);
  if (count_ < kMaxIdle) idle_[count_++] = std::move(team);
}

}  // namespace fusec::runtime

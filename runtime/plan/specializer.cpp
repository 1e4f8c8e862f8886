// SPDX-License-Identifier: Apache-2.0
// Implements the thread that makes specialised Plans. No lock is held while it compiles. What it makes is handed over
// by one atomic store, and runs look for it when they begin. Its errors are warned of once, because the generic Plan
// goes on to serve the shapes.

#include "runtime/plan/specializer.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "ir/support/check.h"
#include "runtime/device/host/process.h"

namespace fusec::runtime {
namespace {

constexpr int kLowPriority = 19;  // the highest nice value: it runs where a core is idle

// On Linux, priorities are those of threads. Threads that it starts inherit the value.
void lower_priority() { (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowPriority); }

std::string text_of(const Bindings& bindings) {
  std::string text;
  for (const auto& [name, value] : bindings) text += (text.empty() ? "" : ", ") + name + "=" + std::to_string(value);
  return text;
}

}  // namespace

bool Specializer::is_of_parent() const {
  const uint64_t started = started_;
  return started != 0 && started != forks() + 1;
}

Specializer::~Specializer() {
  cancelled_ = true;
  if (is_of_parent()) thread_.detach();
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    jobs_.clear();
    changed_.notify_all();
  }
  thread_.join();
}

PlanPtr Specializer::make(const PlanPtr& generic, Effort effort) {
  const Result<PlanPtr> made = ir::guarded([&]() -> Result<PlanPtr> {
    FUSEC_ASSIGN(const auto loaded, make_(generic->loaded, generic->bindings, effort, cancelled_));
    if (!loaded || cancelled_) return PlanPtr();
    return bind_specialized(loaded, *generic);
  });
  if (made.ok()) return *made;
  note(generic->bindings, made.status());
  return nullptr;
}

void Specializer::note(const Bindings& bindings, const Status& status) {
  if (cancelled_ || warned_.exchange(true)) return;
  warn_("kernels for " + text_of(bindings) + " alone cannot be made, those for all shapes go on: " + status.str());
}

void Specializer::make_later(const PlanPtr& generic, Made made) {
  if (is_of_parent()) return;
  const std::lock_guard lock(mutex_);
  try {
    jobs_.push_back({generic, std::move(made)});
    if (!thread_.joinable()) {
      thread_ = std::thread([this] { work(); });
      started_ = forks() + 1;
    }
    changed_.notify_all();
  } catch (const std::exception&) {
    jobs_.clear();  // the system grants no thread, or no memory
  }
}

void Specializer::wait() {
  if (is_of_parent()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.empty() && !busy_; });
}

void Specializer::work() {
  lower_priority();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return cancelled_ || !jobs_.empty(); });
    if (cancelled_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.unlock();
    if (const PlanPtr generic = job.generic.lock()) {
      if (const PlanPtr made = make(generic, Effort::all)) {
        generic->successor.set(made);
        job.made(generic, made);
      }
    }
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace fusec::runtime

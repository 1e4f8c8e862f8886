// SPDX-License-Identifier: Apache-2.0
// Specializer: gives the Plans of an Engine successors whose kernels are made for their shapes alone, at once or by one
// thread of low priority. A run never waits for it, and never fails by it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/cache/artifact.h"
#include "runtime/plan/bind.h"

namespace fusec::runtime {

enum class Effort : uint8_t {
  cached,  // only if a process has made these kernels before and the kernel cache has all of them
  all,     // compiles
};

// Makes the Program for these values of all symbols and links it to the generic one. Null: every kernel would be the
// same, or Effort::cached found less than all. It gives up soon after `cancelled` is set.
using SpecializeProgram = std::function<Result<std::shared_ptr<const LoadedProgram>>(
    const std::shared_ptr<const LoadedProgram>& generic, const Bindings& values, Effort effort,
    const std::atomic<bool>& cancelled)>;

class Specializer {
 public:
  // `warn` is told of the first failure.
  Specializer(SpecializeProgram make, Warn warn) : make_(std::move(make)), warn_(std::move(warn)) {}
  // Drops what waits, and waits for the kernel that is being compiled.
  ~Specializer();
  Specializer(const Specializer&) = delete;
  Specializer& operator=(const Specializer&) = delete;

  // On this thread. Null: nothing was made.
  PlanPtr make(const PlanPtr& generic, Effort effort);
  // Called with a generic Plan and its successor.
  using Made = std::function<void(const PlanPtr&, const PlanPtr&)>;
  // By the thread, unless nobody has the Plan any more by then. It sets Plan::successor and then calls `made`.
  void make_later(const PlanPtr& generic, Made made);
  // Until the thread has nothing to do.
  void wait();

 private:
  struct Job {
    std::weak_ptr<const Plan> generic;
    Made made;
  };
  void work();
  void note(const Bindings& bindings, const Status& status);
  bool is_of_parent() const;  // the thread is the parent's; this process is its child by fork

  const SpecializeProgram make_;
  const Warn warn_;
  std::atomic<bool> cancelled_{false}, warned_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool busy_ = false;
  std::thread thread_;                // started for the first job
  std::atomic<uint64_t> started_{0};  // forks() + 1 at that time
};

}  // namespace fusec::runtime

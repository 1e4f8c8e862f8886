// SPDX-License-Identifier: Apache-2.0
// Things that threads take for a while and give back, made when they are first needed: Sessions.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "fusec/status.h"

namespace fusec::runtime {

template <class T>
class Lending {
 public:
  // At most `size` things.
  explicit Lending(std::size_t size) : size_(size) { idle_.reserve(size); }

  // The one that was given back last, else what make() answers, a Result<std::unique_ptr<T>>; waits while all are out.
  template <class Make>
  Result<std::unique_ptr<T>> take(const Make& make) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !idle_.empty() || made_ < size_; });
      if (!idle_.empty()) {
        std::unique_ptr<T> thing = std::move(idle_.back());
        idle_.pop_back();
        return thing;
      }
      ++made_;
    }
    // Counted off again where none is made, also by an exception.
    const auto count_off = [this](void*) { end_one(); };
    std::unique_ptr<void, decltype(count_off)> counted(this, count_off);
    FUSEC_ASSIGN(std::unique_ptr<T> thing, make());
    (void)counted.release();
    return thing;
  }

  void give_back(std::unique_ptr<T> thing) noexcept {
    {
      const std::lock_guard lock(mutex_);
      idle_.push_back(std::move(thing));  // there is room for all
    }
    changed_.notify_one();
  }

  std::size_t size() const { return size_; }
  std::size_t idle() const {
    const std::lock_guard lock(mutex_);
    return idle_.size();
  }

 private:
  void end_one() noexcept {
    {
      const std::lock_guard lock(mutex_);
      --made_;
    }
    changed_.notify_one();
  }

  const std::size_t size_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<T>> idle_;
  std::size_t made_ = 0;  // those in idle_ included
};

}  // namespace fusec::runtime

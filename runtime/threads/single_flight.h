// SPDX-License-Identifier: Apache-2.0
// Work that several threads ask for at once is done by the first; the others wait for its answer, errors included.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "fusec/status.h"
#include "ir/support/check.h"

namespace fusec::runtime {

template <class Key, class Value>
class SingleFlight {
 public:
  // make() runs without a lock held and must answer, not throw; what it throws becomes a Status. Whatever throws, the
  // flight lands: its waiters wake, and the next call with this key flies anew.
  template <class Make>
  Result<Value> run(const Key& key, const Make& make) {
    std::unique_lock lock(mutex_);
    if (auto it = in_flight_.find(key); it != in_flight_.end()) {
      std::shared_ptr<Flight> flight = it->second;
      landed_.wait(lock, [&] { return flight->answer.has_value(); });
      return *flight->answer;
    }
    auto flight = std::make_shared<Flight>();
    const auto at = in_flight_.emplace(key, flight).first;
    lock.unlock();
    Result<Value> answer = ir::guarded([&]() -> Result<Value> { return make(); });
    lock.lock();
    land(*flight, answer);
    in_flight_.erase(at);  // by place: looking for a key may throw
    landed_.notify_all();
    return answer;
  }

 private:
  struct Flight {
    std::optional<Result<Value>> answer;
  };
  static void land(Flight& flight, const Result<Value>& answer) noexcept {
    try {
      flight.answer.emplace(answer);
    } catch (...) {
      flight.answer.emplace(ir::status_of_exception());
    }
  }
  std::mutex mutex_;
  std::condition_variable landed_;
  std::map<Key, std::shared_ptr<Flight>> in_flight_;
};

}  // namespace fusec::runtime

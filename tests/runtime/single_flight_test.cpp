// SPDX-License-Identifier: Apache-2.0
#include "runtime/threads/single_flight.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <stdexcept>
#include <thread>

namespace fusec::runtime {
namespace {

// Tells when it is compared, which is when a second thread has found the first one's flight: it holds the lock then,
// and gives it back by waiting.
struct Key {
  std::atomic<bool>* compared;
  bool operator<(const Key&) const {
    compared->store(true);
    compared->notify_all();
    return false;
  }
};

// Copying it throws.
struct Heavy {
  Heavy() = default;
  Heavy(const Heavy&) { throw std::bad_alloc(); }
  Heavy(Heavy&&) noexcept {}
};

// The answers of a thread that works and of one that waits for it.
template <class Value, class Make>
std::pair<StatusCode, StatusCode> two_threads(SingleFlight<Key, Value>& in_flight, const Make& make) {
  std::atomic<bool> compared = false;
  const Key key{&compared};
  StatusCode waiter = StatusCode::ok, worker = StatusCode::ok;
  std::thread second;
  worker = in_flight
               .run(key,
                    [&]() -> Result<Value> {
                      second = std::thread([&] {
                        waiter = ir::guarded([&] {
                                   return in_flight.run(key, [&]() -> Result<Value> {
                                     return Status(StatusCode::internal, "the waiter worked itself");
                                   });
                                 })
                                     .status()
                                     .code();
                      });
                      compared.wait(false);
                      return make();
                    })
               .status()
               .code();
  second.join();
  return {worker, waiter};
}

TEST(SingleFlight, WaitersWakeWhateverThrows) {
  using Codes = std::pair<StatusCode, StatusCode>;
  SingleFlight<Key, int> in_flight;
  EXPECT_EQ(two_threads(in_flight, [] { return Result<int>(7); }), Codes(StatusCode::ok, StatusCode::ok));
  EXPECT_EQ(two_threads(in_flight, []() -> Result<int> { throw std::bad_alloc(); }),
            Codes(StatusCode::out_of_memory, StatusCode::out_of_memory));
  EXPECT_EQ(two_threads(in_flight, []() -> Result<int> { throw std::runtime_error("odd"); }),
            Codes(StatusCode::internal, StatusCode::internal));
  EXPECT_EQ(two_threads(in_flight, []() -> Result<int> { throw 7; }),
            Codes(StatusCode::internal, StatusCode::internal));
  // Each of these flights has landed: the next one flies anew.
  EXPECT_EQ(two_threads(in_flight, [] { return Result<int>(7); }), Codes(StatusCode::ok, StatusCode::ok));
}

TEST(SingleFlight, WaitersWakeWhenTheAnswerCannotBeCopied) {
  using Codes = std::pair<StatusCode, StatusCode>;
  SingleFlight<Key, Heavy> in_flight;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(two_threads(in_flight, [] { return Result<Heavy>(Heavy()); }),
              Codes(StatusCode::ok, StatusCode::out_of_memory));
  }
}

}  // namespace
}  // namespace fusec::runtime

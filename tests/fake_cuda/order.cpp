// SPDX-License-Identifier: Apache-2.0
#include "tests/fake_cuda/order.h"

#include <algorithm>

namespace fusec::fake_cuda {
namespace {

bool covers(const Clock& clock, const Clock& accesses) {
  return std::all_of(accesses.begin(), accesses.end(), [&](const auto& access) {
    const auto found = clock.find(access.first);
    return found != clock.end() && found->second >= access.second;
  });
}

}  // namespace

void join(Clock& clock, const Clock& other) {
  for (const auto& [stream, time] : other) clock[stream] = std::max(clock[stream], time);
}

Clock& Order::take_up(void* stream) {
  Stream& own = streams_.at(stream);
  join(own.clock, host_);
  for (const auto& [handle, other] : streams_) {
    if (own.blocking && other.blocking && (stream == kLegacy || handle == kLegacy)) join(own.clock, other.clock);
  }
  return own.clock;
}

void Order::put(void* stream) { ++take_up(stream)[streams_.at(stream).number]; }

void Order::record(void* event, void* stream) { events_[event] = take_up(stream); }

void Order::wait(void* stream, void* event) { join(take_up(stream), events_[event]); }

void Order::synchronize(void* stream) { join(host_, take_up(stream)); }

void Order::synchronize_all() {
  for (const auto& [handle, stream] : streams_) join(host_, stream.clock);
}

bool Order::read(Accesses& accesses, void* stream) {
  const Clock& clock = clock_of(stream);
  const bool good = covers(clock, accesses.writes);
  if (stream != nullptr) accesses.reads[streams_.at(stream).number] = clock.at(streams_.at(stream).number);
  return good;
}

bool Order::write(Accesses& accesses, void* stream) {
  const Clock& clock = clock_of(stream);
  const bool good = covers(clock, accesses.writes) && covers(clock, accesses.reads);
  accesses = {};
  if (stream != nullptr) accesses.writes[streams_.at(stream).number] = clock.at(streams_.at(stream).number);
  return good;
}

bool Order::is_behind(void* stream, void* other) {
  const Clock& all = streams_.at(other).clock;
  const auto last = all.find(streams_.at(other).number);
  return last == all.end() || covers(take_up(stream), {*last});
}

}  // namespace fusec::fake_cuda

// SPDX-License-Identifier: Apache-2.0
// The order of work on the streams of the fake driver. Its streams do their work at once, so a test cannot see a
// missing event by a wrong result. Instead, each piece of work has a time on its stream, and a clock tells of each
// stream, event and of the host which times of the streams they are behind. Work on memory that is not behind the work
// which it conflicts with is a race.
#pragma once

#include <cstdint>
#include <map>

namespace fusec::fake_cuda {

inline void* const kLegacy = reinterpret_cast<void*>(1);     // CU_STREAM_LEGACY
inline void* const kPerThread = reinterpret_cast<void*>(2);  // CU_STREAM_PER_THREAD

using Clock = std::map<long, long>;  // by the number of a stream, the last time that this is behind

void join(Clock& clock, const Clock& other);

// The last work on a piece of memory.
struct Accesses {
  Clock writes, reads;
};

class Order {
 public:
  void add_stream(void* stream, bool blocking) { streams_[stream] = {++made_, blocking, {}}; }
  void remove_stream(void* stream) { streams_.erase(stream); }

  // The work that is put on the stream next is behind what the host has waited for and, as the legacy default stream
  // and blocking streams wait for each other, behind that.
  void put(void* stream);
  void record(void* event, void* stream);
  void wait(void* stream, void* event);
  void synchronize(void* stream);
  void synchronize_event(void* event) { join(host_, events_[event]); }
  void synchronize_all();

  // Work that was put on the stream, or with nullptr work of the host. False: it races with other work.
  bool read(Accesses& accesses, void* stream);
  bool write(Accesses& accesses, void* stream);

  // Whether what is put on a stream next is behind all that is on another one.
  bool is_behind(void* stream, void* other);

 private:
  struct Stream {
    long number;  // a handle may come again
    bool blocking;
    Clock clock;
  };

  // What is put on the stream from here on is behind what the host has waited for and, as the legacy default stream and
  // blocking streams wait for each other, behind that.
  Clock& take_up(void* stream);
  const Clock& clock_of(void* stream) { return stream == nullptr ? host_ : streams_.at(stream).clock; }

  std::map<void*, Stream> streams_ = {{kLegacy, {1, true, {}}}, {kPerThread, {2, true, {}}}};
  long made_ = 2;
  std::map<void*, Clock> events_;
  Clock host_;
};

}  // namespace fusec::fake_cuda

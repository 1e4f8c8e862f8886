// SPDX-License-Identifier: Apache-2.0
// CallStopwatch: times bound calls of a library alone, on memory of the device. Before each run other memory is read,
// so that weights come from further away, and then the activations are: as in a model, where an earlier step has just
// written them. It is the same for every algorithm.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "fusec/status.h"
#include "runtime/library/interface/library.h"

namespace fusec::runtime {

inline constexpr int64_t kTimedAlignment = 256;

struct MemoryRange {
  void* data = nullptr;
  int64_t bytes = 0;
};

// One thread at a time.
class CallStopwatch {
 public:
  virtual ~CallStopwatch() = default;
  // Aligned to kTimedAlignment, contents undefined; until `release`.
  virtual Result<void*> allocate(int64_t bytes) = 0;
  virtual void release() = 0;
  virtual Status write(void* to, const void* from_host, int64_t bytes) = 0;
  // Microseconds of one run; `warm` is in the caches when it begins.
  virtual Result<double> time_us(const LibraryOp& op, void* const* args, void* workspace,
                                 std::span<const MemoryRange> warm) = 0;
};

// flush_bytes: that are read before each run.
std::unique_ptr<CallStopwatch> make_host_stopwatch(int threads, int64_t flush_bytes);

}  // namespace fusec::runtime

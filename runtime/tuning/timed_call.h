// SPDX-License-Identifier: Apache-2.0
// TimedCall: one library call with random operands, run again and again in its several ways. CallStopwatch times bound
// calls alone, on memory of the device: before each run other memory is read, so that weights come from further away,
// and then the activations are, as in a model, where an earlier step has just written them. It is the same for every
// choice. A call that is `repeated` runs many times without a pause instead, and the time is of one of these runs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "fusec/status.h"
#include "runtime/device/device.h"
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
  // Microseconds of one of so many runs, one after another, that follow one which is not timed.
  virtual Result<double> time_repeated_us(const LibraryOp& op, void* const* args, void* workspace, int64_t runs) = 0;
};

// flush_bytes: that are read before each run.
std::unique_ptr<CallStopwatch> make_host_stopwatch(int threads, int64_t flush_bytes);

struct Spread {
  double median = 0, relative = 0;  // relative: quartile distance / median
};
Spread compute_spread(std::vector<double> us);

class TimedCall {
 public:
  // device: of a GPU, else null; it outlives this.
  TimedCall(std::unique_ptr<CallStopwatch> stopwatch, const DeviceProgram* device)
      : stopwatch_(std::move(stopwatch)), device_(device) {}

  // Memory for the operands, until `end`. Constants have the model's bytes, all else is random in (-1, 1). Constants
  // are in the caches before each run only where the call says so.
  Status begin(const LibraryCall& call);
  // The last `outputs` of the arguments are written.
  Status begin(std::span<const BoundArg> args, std::size_t outputs);
  void end();

  // Microseconds of runs after one that is not counted. best_us > 0: a way that takes more than twice as long is given
  // up after a run or two.
  Result<std::vector<double>> time(const LibraryOp& op, bool quick, double best_us);
  // Both in turn, as often as each other.
  Result<std::pair<std::vector<double>, std::vector<double>>> time_in_turn(const LibraryOp& first,
                                                                           const LibraryOp& second, bool quick);
  // Not ok: the device is lost, and nothing more can be timed.
  Status alive() const;

 private:
  Status begin_args(std::span<const BoundArg> args, std::size_t outputs);
  Status place(const BoundArg& arg, bool is_output);
  Result<double> once(const LibraryOp& op);

  std::unique_ptr<CallStopwatch> stopwatch_;
  const DeviceProgram* device_;
  std::vector<void*> args_;
  std::vector<MemoryRange> warm_;
  bool warm_constants_ = false, repeated_ = false;
  int64_t runs_ = 1;  // of what is repeated, by its first time
  MemoryRange workspace_;
};

}  // namespace fusec::runtime

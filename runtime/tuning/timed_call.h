// SPDX-License-Identifier: Apache-2.0
// TimedCall: one library call with random operands, run again and again in its several ways.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "runtime/device/device_program.h"
#include "runtime/library/interface/library.h"
#include "runtime/tuning/call_stopwatch.h"

namespace fusec::runtime {

struct Spread {
  double median = 0, relative = 0;  // relative: quartile distance / median
};
Spread compute_spread(std::vector<double> us);

class TimedCall {
 public:
  // device: of a GPU, else null; it outlives this.
  TimedCall(std::unique_ptr<CallStopwatch> stopwatch, const DeviceProgram* device)
      : stopwatch_(std::move(stopwatch)), device_(device) {}

  // Memory for the operands, until `end`. Constants have the model's bytes, all else is random in (-1, 1).
  Status begin(const LibraryCall& call);
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
  Status place(const BoundArg& arg, bool is_output);
  Result<double> once(const LibraryOp& op);

  std::unique_ptr<CallStopwatch> stopwatch_;
  const DeviceProgram* device_;
  std::vector<void*> args_;
  std::vector<MemoryRange> warm_;
  MemoryRange workspace_;
};

}  // namespace fusec::runtime

// SPDX-License-Identifier: Apache-2.0
// The baseline of memory-bound work on a GPU: the fastest of the driver's copy and a compiled copy kernel, each timed
// by events after the last-level cache was flushed by reading, so that its lines are clean.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fusec/engine.h"
#include "fusec/session.h"
#include "fusec/status.h"
#include "runtime/tool/measure/timing.h"

namespace fusec::tool {

struct GpuCopy {
  std::string kind;  // "memcpy", "kernel"
  double us = 0;     // median
};

struct GpuPaired {
  std::vector<double> us;       // of the call, per round
  std::vector<GpuCopy> copies;  // of as many bytes: half read, half written
  const GpuCopy& fastest() const;
  double score() const;
};

// Microseconds that the calling thread spends on putting one run on a stream, medians: behind a run of its own, and
// after it has waited for that, which may have cooled the processor's caches.
struct HostTime {
  double queued = 0, after_wait = 0;
};

class GpuBaseline {
 public:
  using Compile = Result<Engine> (*)(const Model&, const Options&);
  // `options` names the GPU. Without a compiler (null) only the driver's copy is left.
  static Result<std::unique_ptr<GpuBaseline>> make(const Options& options, Compile compile);
  ~GpuBaseline();

  // Compiles what `time` needs. A copy kernel or a flush that does not compile is left out with a note.
  Status prepare();
  // After prepare(): rounds of flush, call, flush, copy of each kind. Tensors lie on the GPU.
  Result<GpuPaired> time(Session& session, std::span<const Tensor> inputs, std::span<Tensor> outputs, int64_t bytes,
                         const Budget& budget);
  // After prepare(): microseconds of the driver's copy of so much traffic, between events after a flush: median of a
  // few.
  Result<double> copy_us(int64_t bytes);
  // Microseconds of the driver's copy of so much traffic, as a caller sees it who waits for it: median of a few.
  Result<double> wall_copy_us(int64_t bytes);
  // The graph being captured; tensors lie on the GPU.
  Result<HostTime> host_us(Session& session, std::span<const Tensor> inputs, std::span<Tensor> outputs);
  // GB/s of reading alone; 0 when unknown.
  double read_gb_per_s() const;
  const std::vector<std::string>& notes() const;

 private:
  struct Impl;
  explicit GpuBaseline(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fusec::tool

// SPDX-License-Identifier: Apache-2.0
// Session: one thread's run state over a shared Engine: arena, argument tables, staging memory; on a GPU also a stream
// and captured graphs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fusec/engine.h"
#include "fusec/export.h"
#include "fusec/profile.h"
#include "fusec/status.h"
#include "fusec/tensor.h"

namespace fusec {

struct FUSEC_API SessionStats {
  int64_t runs = 0;
  int64_t prepared = 0;       // sets of shapes ready to run
  int64_t arena_bytes = 0;    // allocated
  int64_t staged_copies = 0;  // of caller tensors that could not be used where they lie
  int64_t swapped = 0;        // plans whose kernels for their shapes came in (Options::specialize)
  int64_t captured_graphs = 0, replayed_graphs = 0;  // of a GPU: plans captured, runs that were one graph launch
  std::vector<std::string> notes;                    // why, once per tensor
};

// Not for two threads at once; make one Session per thread.
class FUSEC_API Session {
 public:
  static Result<Session> create(const Engine& engine) noexcept;
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // Inputs and outputs in the Engine's order. An output that is an empty Tensor() is allocated; others must have the
  // right dtype and shape. Strided, misaligned and overlapping memory of the caller is handled by a staging copy. Once
  // shapes have been seen (or prepared), a run with given outputs allocates nothing.
  //
  // With an Engine on a GPU tensors may lie on the host or on that GPU, each as it likes; outputs that are not given
  // are made where the inputs lie (on the GPU if one of them does). The run is over when it answers, and it uses a
  // stream of its own: work of the caller on its tensors must be over when it begins. An error that breaks the GPU's
  // context (an illegal address, ...) makes every later call answer `device` with that first error.
  Status run(std::span<const Tensor> inputs, std::span<Tensor> outputs) noexcept;
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs) noexcept;

  // Puts a run on `stream` (a CUstream of the Engine's GPU, null: the legacy default stream) and answers at once: the
  // run comes after what is on the stream, and what comes there next comes after the run. Tensors lie on the GPU and
  // live until the run is over; so does the Session. Indices out of range are clamped, not reported. On the CPU
  // it is `run`.
  //
  // The stream may be in capture, also one of the mode `global`, once these input shapes were run or prepared: the run
  // becomes a part of the caller's graph. All tensors are then given, dense and aligned, because nothing is copied. The
  // Session lives as long as the graph, whose launches must not overlap each other or other runs of this Session.
  Status run_async(std::span<const Tensor> inputs, std::span<Tensor> outputs, void* stream) noexcept;

  // Fixes the tensors of later run_bound() calls; the memory must outlive them. An output may be the memory of an
  // input.
  Status bind_io(std::span<const Tensor> inputs, std::span<const Tensor> outputs) noexcept;
  Status run_bound() noexcept;

  // Does everything that the first run with these input shapes would do beside running. A GPU's graph is captured by
  // bind_io, or by the second run with the same memory.
  Status prepare(std::span<const TensorShape> input_shapes) noexcept;
  Result<std::vector<TensorShape>> output_shapes(std::span<const TensorShape> input_shapes) const noexcept;

  // Runs once and answers the time of every launch.
  Result<PlanStats> profile(std::span<const Tensor> inputs) noexcept;
  // Runs many times, traced and untraced, and answers where the time goes. invalid_argument: no runs are asked for.
  // On a GPU of the process one profile at a time is made by CUPTI; others are made by events.
  Result<Profile> profile(std::span<const Tensor> inputs, const ProfileOptions& options) noexcept;

  SessionStats stats() const;
  const Engine& engine() const;

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fusec

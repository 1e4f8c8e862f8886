// SPDX-License-Identifier: Apache-2.0
// Session: one thread's run state over a shared Engine: arena, argument tables, staging memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fusec/engine.h"
#include "fusec/export.h"
#include "fusec/status.h"
#include "fusec/tensor.h"

namespace fusec {

struct FUSEC_API SessionStats {
  int64_t runs = 0;
  int64_t prepared = 0;       // sets of shapes ready to run
  int64_t arena_bytes = 0;    // allocated
  int64_t staged_copies = 0;  // of caller tensors that could not be used where they lie
  std::vector<std::string> notes;  // why, once per tensor
};

// Not for two threads at once; make one Session per thread.
class FUSEC_API Session {
 public:
  static Result<Session> create(const Engine& engine);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // Inputs and outputs in the Engine's order. An output that is an empty Tensor() is allocated; others must have the
  // right dtype and shape. Strided, misaligned and overlapping memory of the caller is handled by a staging copy. Once
  // shapes have been seen (or prepared), a run with given outputs allocates nothing.
  Status run(std::span<const Tensor> inputs, std::span<Tensor> outputs);
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs);

  // Fixes the tensors of later run_bound() calls; the memory must outlive them. An output may be the memory of an input.
  Status bind_io(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  Status run_bound();

  // Does everything that the first run with these input shapes would do beside running.
  Status prepare(std::span<const TensorShape> input_shapes);
  Result<std::vector<TensorShape>> output_shapes(std::span<const TensorShape> input_shapes) const;

  // Runs once and answers the time of every launch.
  Result<PlanStats> profile(std::span<const Tensor> inputs);

  SessionStats stats() const;
  const Engine& engine() const;

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fusec

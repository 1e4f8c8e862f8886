// SPDX-License-Identifier: Apache-2.0
// jit: a graph as a function on the caller's memory, the way frameworks call fused kernels.
#pragma once

#include <memory>
#include <span>

#include "fusec/export.h"
#include "fusec/model.h"
#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/tensor.h"

namespace fusec {

// Copies share the code. Calls from several threads run side by side.
class FUSEC_API JitFunction {
 public:
  // Inputs may have any strides. A transposed or broadcast input (a permutation of dense memory, axes of stride 0) is
  // read where it lies: the first call with such a pattern compiles a variant for it. Other layouts are copied first.
  // Outputs, and where tensors lie, as in Session::run.
  Status operator()(std::span<const Tensor> inputs, std::span<Tensor> outputs) const noexcept;
  // On a stream of the caller, as Session::run_async.
  Status run_async(std::span<const Tensor> inputs, std::span<Tensor> outputs, void* stream) const noexcept;

  struct Impl;
  explicit JitFunction(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  // Layout patterns compiled so far.
  int variants() const;

 private:
  std::shared_ptr<Impl> impl_;
};

// Compiles for row-major inputs.
FUSEC_API Result<JitFunction> jit(const Model& model, const Options& options = {}) noexcept;

}  // namespace fusec

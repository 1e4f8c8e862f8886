// SPDX-License-Identifier: Apache-2.0
// Times work on a GPU by events on a stream of its own.
#pragma once

#include <functional>

#include "fusec/tensor.h"
#include "runtime/device/cuda/handles.h"

namespace fusec::runtime::cuda {

class Stopwatch {
 public:
  using Work = std::function<Status(void* stream)>;

  static Result<Stopwatch> make(int ordinal);
  // Microseconds on the GPU of what `work` puts on the stream; `before` is put there first and hides the host's part of
  // it. Waits for the end.
  Result<double> time_us(const Work& before, const Work& work) const;
  // Waits for what `work` puts on the stream.
  Status run(const Work& work) const;
  // Puts the driver's copy of the first bytes on the stream.
  Status copy(const Tensor& from, Tensor& to, int64_t bytes, void* stream) const;

 private:
  Stopwatch(ContextPtr context, Stream stream, Event start, Event end)
      : context_(std::move(context)), stream_(std::move(stream)), start_(std::move(start)), end_(std::move(end)) {}

  ContextPtr context_;
  Stream stream_;
  Event start_, end_;
};

}  // namespace fusec::runtime::cuda

// SPDX-License-Identifier: Apache-2.0
// Times work on a GPU with a pair of events on a stream of its own, for tuning and for `fusec bench`. Work that is
// enqueued before the first event hides the host's launch overhead.

#include "runtime/device/cuda/stopwatch.h"

#include <utility>

namespace fusec::runtime::cuda {

Result<Stopwatch> Stopwatch::make(int ordinal) {
  FUSEC_ASSIGN(const ContextPtr context, Context::open(ordinal));
  const Current current(*context);
  FUSEC_TRY(current.status());
  FUSEC_ASSIGN(Stream stream, make_stream(context));
  FUSEC_ASSIGN(Event start, make_event(context, true));
  FUSEC_ASSIGN(Event end, make_event(context, true));
  return Stopwatch(context, std::move(stream), std::move(start), std::move(end));
}

Status Stopwatch::run(const Work& work) const {
  const Current current(*context_);
  FUSEC_TRY(current.status());
  FUSEC_TRY(work(stream_.get()));
  return context_->check(context_->driver().cuStreamSynchronize(stream_.get()), "cuStreamSynchronize");
}

Result<double> Stopwatch::time_us(const Work& before, const Work& work) const {
  const Driver& driver = context_->driver();
  FUSEC_TRY(run([&](void* stream) -> Status {
    FUSEC_TRY(before(stream));
    FUSEC_TRY(context_->check(driver.cuEventRecord(start_.get(), stream_.get()), "cuEventRecord"));
    FUSEC_TRY(work(stream));
    return context_->check(driver.cuEventRecord(end_.get(), stream_.get()), "cuEventRecord");
  }));
  const Current current(*context_);
  FUSEC_TRY(current.status());
  float ms = 0;
  FUSEC_TRY(context_->check(driver.cuEventElapsedTime(&ms, start_.get(), end_.get()), "cuEventElapsedTime"));
  return 1e3 * static_cast<double>(ms);
}

Status Stopwatch::copy(const Tensor& from, Tensor& to, int64_t bytes, void* stream) const {
  const CUresult result = context_->driver().cuMemcpyDtoDAsync(
      address_of(to.data()), address_of(from.data()), static_cast<std::size_t>(bytes), static_cast<CUstream>(stream));
  return context_->check(result, "cuMemcpyDtoDAsync");
}

}  // namespace fusec::runtime::cuda

// SPDX-License-Identifier: Apache-2.0
#include "runtime/run/cuda/branches.h"

#include <algorithm>
#include <utility>

namespace fusec::runtime::cuda {
namespace {

// Small calls fill a GPU together from about so many on; each takes a stream, and edges of the graph.
constexpr std::size_t kMaxBranches = 8;

}  // namespace

Result<Branches> Branches::make(ContextPtr context, std::size_t calls) {
  Branches out;
  if (calls < 2) return out;
  FUSEC_ASSIGN(out.begin_, make_event(context, false));
  for (std::size_t i = 1; i < std::min(calls, kMaxBranches); ++i) {
    Branch branch;
    FUSEC_ASSIGN(branch.stream, make_stream(context));
    FUSEC_ASSIGN(branch.done, make_event(context, false));
    out.branches_.push_back(std::move(branch));
  }
  out.context_ = std::move(context);
  return out;
}

Status Branches::run(const LibraryOp& op, void* const* args, CUstream stream) const {
  const Driver& driver = context_->driver();
  const std::size_t count = std::min(op.calls(), branches_.size() + 1), beside = count - 1;
  FUSEC_TRY(context_->check(driver.cuEventRecord(begin_.get(), stream), "cuEventRecord"));
  for (std::size_t b = 0; b < beside; ++b) {
    FUSEC_TRY(
        context_->check(driver.cuStreamWaitEvent(branches_[b].stream.get(), begin_.get(), 0), "cuStreamWaitEvent"));
  }
  Status status;
  for (std::size_t i = 0; status.ok() && i < op.calls(); ++i) {
    const std::size_t b = i % count;
    status = op.run_call(i, args, {1, b < beside ? branches_[b].stream.get() : stream});
  }
  // Also after a failure: the caller waits for `stream` alone, and a capture must not end with open branches.
  for (std::size_t b = 0; b < beside; ++b) {
    FUSEC_TRY(
        context_->check(driver.cuEventRecord(branches_[b].done.get(), branches_[b].stream.get()), "cuEventRecord"));
    FUSEC_TRY(context_->check(driver.cuStreamWaitEvent(stream, branches_[b].done.get(), 0), "cuStreamWaitEvent"));
  }
  return status;
}

}  // namespace fusec::runtime::cuda

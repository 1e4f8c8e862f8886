// SPDX-License-Identifier: Apache-2.0
// Times library calls on the CPU for the tuner, with the threads that a run has. Before each call it reads other
// memory, which evicts the second-level caches, and then reads the activations back in.

#include <algorithm>
#include <chrono>
#include <vector>

#include "runtime/device/host/memory.h"
#include "runtime/threads/parallel.h"
#include "runtime/tuning/timed_call.h"

namespace fusec::runtime {
namespace {

constexpr int64_t kLine = 64;

class HostStopwatch final : public CallStopwatch {
 public:
  HostStopwatch(int threads, int64_t flush_bytes) : threads_(threads), flushed_(flush_bytes) {}

  Result<void*> allocate(int64_t bytes) override {
    FUSEC_ASSIGN(AlignedBuffer buffer, AlignedBuffer::make(std::max<int64_t>(bytes, 1) + kTimedAlignment));
    const auto address = reinterpret_cast<uintptr_t>(buffer.data());
    buffers_.push_back(std::move(buffer));
    return reinterpret_cast<void*>((address + kTimedAlignment - 1) / kTimedAlignment * kTimedAlignment);
  }
  void release() override { buffers_.clear(); }
  Status write(void* to, const void* from_host, int64_t bytes) override {
    std::copy_n(static_cast<const std::byte*>(from_host), bytes, static_cast<std::byte*>(to));
    return {};
  }

  Result<double> time_us(const LibraryOp& op, void* const* args, void* workspace,
                         std::span<const MemoryRange> warm) override {
    using Clock = std::chrono::steady_clock;
    if (flush_.bytes() < flushed_) {
      FUSEC_ASSIGN(flush_, AlignedBuffer::make(flushed_));
      std::fill_n(flush_.data(), flush_.bytes(), std::byte{1});  // pages that were never written share one
    }
    read({flush_.data(), flush_.bytes()});
    for (const MemoryRange& range : warm) read(range);
    const ExecContext context{threads_};
    const Clock::time_point start = Clock::now();
    FUSEC_TRY(op.run(args, workspace, context));
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  }

  Result<double> time_repeated_us(const LibraryOp& op, void* const* args, void* workspace, int64_t runs) override {
    using Clock = std::chrono::steady_clock;
    const ExecContext context{threads_};
    FUSEC_TRY(op.run(args, workspace, context));
    const Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < runs; ++i) FUSEC_TRY(op.run(args, workspace, context));
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / static_cast<double>(runs);
  }

 private:
  // Reads with the threads that a run has.
  void read(const MemoryRange& range) const {
    const auto* const bytes = static_cast<const volatile std::byte*>(range.data);
    parallel_for(threads_, range.bytes / kLine, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) (void)bytes[i * kLine];
    });
  }

  int threads_;
  int64_t flushed_;
  AlignedBuffer flush_;
  std::vector<AlignedBuffer> buffers_;
};

}  // namespace

std::unique_ptr<CallStopwatch> make_host_stopwatch(int threads, int64_t flush_bytes) {
  return std::make_unique<HostStopwatch>(std::max(threads, 1), flush_bytes);
}

}  // namespace fusec::runtime

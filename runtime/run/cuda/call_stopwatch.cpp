// SPDX-License-Identifier: Apache-2.0
// Times library calls on a GPU for the tuner: implements `Program::make_stopwatch` and `Program::name`. Before each
// timed call it evicts the last-level cache by copies that read much more memory than they write, and then reads the
// activations back in.

#include <algorithm>
#include <utility>

#include "runtime/device/cuda/handles.h"
#include "runtime/run/cuda/link.h"
#include "runtime/tuning/timed_call.h"

namespace fusec::runtime::cuda {
namespace {

// The flush copies pieces of this size to one place, so it reads much memory and leaves few dirty cache lines.
constexpr int64_t kFlushPiece = int64_t{4} << 20;

class GpuCallStopwatch final : public CallStopwatch {
 public:
  GpuCallStopwatch(ContextPtr context, Stopwatch watch, DeviceBuffer flush)
      : context_(std::move(context)), watch_(std::move(watch)), flush_(std::move(flush)) {}

  Result<void*> allocate(int64_t bytes) override {
    const Current current(*context_);
    FUSEC_TRY(current.status());
    FUSEC_ASSIGN(DeviceBuffer buffer, DeviceBuffer::make(context_, std::max<int64_t>(bytes, 1)));
    void* const data = buffer.data();
    buffers_.push_back(std::move(buffer));
    return data;
  }
  void release() override { buffers_.clear(); }

  Status write(void* to, const void* from_host, int64_t bytes) override {
    const Current current(*context_);
    FUSEC_TRY(current.status());
    const CUresult result = context_->driver().cuMemcpyHtoD(address_of(to), from_host, static_cast<std::size_t>(bytes));
    FUSEC_TRY(context_->check(result, "cuMemcpyHtoD"));
    return context_->check(context_->driver().cuStreamSynchronize(nullptr), "cuStreamSynchronize");
  }

  Result<double> time_us(const LibraryOp& op, void* const* args, void* workspace,
                         std::span<const MemoryRange> warm) override {
    return watch_.time_us([&](void* stream) { return prepare(warm, stream); },
                          [&](void* stream) {
                            return op.run(args, workspace, {1, stream});
                          });
  }

  Result<double> time_repeated_us(const LibraryOp& op, void* const* args, void* workspace, int64_t runs) override {
    const auto run = [&](void* stream) { return op.run(args, workspace, {1, stream}); };
    FUSEC_TRY(watch_.run(run));  // what the first run loads cannot be captured
    const auto before = [&](void* stream) -> Status {
      FUSEC_TRY(prepare({}, stream));
      return run(stream);
    };
    FUSEC_ASSIGN(const double us, watch_.time_captured_us(before, [&](void* stream) -> Status {
      for (int64_t i = 0; i < runs; ++i) FUSEC_TRY(run(stream));
      return {};
    }));
    return us / static_cast<double>(runs);
  }

 private:
  // All copies write to the first piece of the flush buffer.
  Status prepare(std::span<const MemoryRange> warm, void* stream) const {
    const int64_t pieces = flush_.bytes() / kFlushPiece;
    for (int64_t i = 1; i < pieces; ++i)
      FUSEC_TRY(read(flush_.address() + static_cast<CUdeviceptr>(i * kFlushPiece), kFlushPiece, stream));
    for (const MemoryRange& range : warm) {
      for (int64_t at = 0; at < range.bytes; at += kFlushPiece) {
        FUSEC_TRY(read(address_of(range.data) + static_cast<CUdeviceptr>(at), std::min(range.bytes - at, kFlushPiece),
                       stream));
      }
    }
    return {};
  }
  Status read(CUdeviceptr from, int64_t bytes, void* stream) const {
    const CUresult result = context_->driver().cuMemcpyDtoDAsync(
        flush_.address(), from, static_cast<std::size_t>(bytes), static_cast<CUstream>(stream));
    return context_->check(result, "cuMemcpyDtoDAsync");
  }

  ContextPtr context_;
  Stopwatch watch_;
  DeviceBuffer flush_;
  std::vector<DeviceBuffer> buffers_;
};

}  // namespace

Result<std::unique_ptr<CallStopwatch>> Program::make_stopwatch(int64_t flush_bytes) const {
  FUSEC_ASSIGN(Stopwatch watch, Stopwatch::make(context->ordinal()));
  const Current current(*context);
  FUSEC_TRY(current.status());
  const int64_t flushed = round_up(std::max(flush_bytes, 2 * kFlushPiece), kFlushPiece);
  FUSEC_ASSIGN(DeviceBuffer flush, DeviceBuffer::make(context, flushed));
  return std::unique_ptr<CallStopwatch>(
      std::make_unique<GpuCallStopwatch>(context, std::move(watch), std::move(flush)));
}

std::string Program::name() const {
  char text[256] = "";
  const CUresult result = context->driver().cuDeviceGetName(text, sizeof(text) - 1, context->device());
  return result == CUDA_SUCCESS ? text : "GPU";
}

}  // namespace fusec::runtime::cuda

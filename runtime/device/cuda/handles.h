// SPDX-License-Identifier: Apache-2.0
// Owned things of the driver: memory, streams, events, graphs, loaded code. Each keeps its Context and gives itself
// back. Making one needs the context current.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/device/cuda/context.h"

namespace fusec::runtime::cuda {

inline constexpr int64_t kDeviceAlignment = 256;  // of allocations and of blocks in them, as libraries like them

struct Release {
  ContextPtr context;
  void operator()(CUstream_st* stream) const;
  void operator()(CUevent_st* event) const;
  void operator()(CUgraph_st* graph) const;
  void operator()(CUgraphExec_st* graph) const;
  void operator()(CUlib_st* library) const;
};
using Stream = std::unique_ptr<CUstream_st, Release>;
using Event = std::unique_ptr<CUevent_st, Release>;
using Graph = std::unique_ptr<CUgraph_st, Release>;
using GraphExec = std::unique_ptr<CUgraphExec_st, Release>;
using Code = std::unique_ptr<CUlib_st, Release>;

Result<Stream> make_stream(const ContextPtr& context);  // does not wait for the legacy default stream
Result<Event> make_event(const ContextPtr& context, bool timed);

enum class MemoryKind : uint8_t {
  device,
  pinned,  // host memory that the GPU copies from and to by itself
};

// Contents undefined. out_of_memory says what is free.
template <MemoryKind kind>
class Buffer {
 public:
  Buffer() = default;
  static Result<Buffer> make(const ContextPtr& context, int64_t bytes);
  std::byte* data() const { return data_.get(); }
  CUdeviceptr address() const { return reinterpret_cast<CUdeviceptr>(data_.get()); }
  int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    ContextPtr context;
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  int64_t bytes_ = 0;
};
using DeviceBuffer = Buffer<MemoryKind::device>;
using PinnedBuffer = Buffer<MemoryKind::pinned>;
template <>
void DeviceBuffer::Free::operator()(std::byte* data) const;
template <>
void PinnedBuffer::Free::operator()(std::byte* data) const;
template <>
Result<DeviceBuffer> DeviceBuffer::make(const ContextPtr& context, int64_t bytes);
template <>
Result<PinnedBuffer> PinnedBuffer::make(const ContextPtr& context, int64_t bytes);

// Makes the buffer at least so large, its contents lost when it grows; true when its address changed.
template <MemoryKind kind>
Result<bool> grow(Buffer<kind>& buffer, const ContextPtr& context, int64_t bytes) {
  if (buffer.bytes() >= bytes) return false;
  buffer = Buffer<kind>();  // first give back, so that both never exist at once
  FUSEC_ASSIGN(buffer, Buffer<kind>::make(context, bytes));
  return true;
}

inline CUdeviceptr address_of(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

}  // namespace fusec::runtime::cuda

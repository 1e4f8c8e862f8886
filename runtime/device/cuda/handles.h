// SPDX-License-Identifier: Apache-2.0
// Owned things of the driver: memory, streams, events, graphs, loaded code. Each keeps its Context and gives itself
// back. Making one needs the context current. Built of them are the captured graphs of one Plan in one session, by the
// addresses of the caller's tensors, and a stopwatch that times work by events on a stream of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "fusec/host.h"
#include "fusec/tensor.h"
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
// What `work` puts on the stream, to be launched at once. Other threads may allocate and synchronize meanwhile.
Result<GraphExec> capture(const ContextPtr& context, CUstream stream, const std::function<Status()>& work);

enum class MemoryKind : uint8_t {
  device,
  pinned,  // host memory that the GPU copies from and to by itself
};

// Where memory of the GPU comes from, and the stream on which it is used first.
struct MemorySource {
  std::shared_ptr<const HostAllocator> allocator = nullptr;  // null: the driver
  CUstream stream = nullptr;
};

// Contents undefined. out_of_memory says what is free. Pinned memory always comes from the driver.
template <MemoryKind kind>
class Buffer {
 public:
  Buffer() = default;
  static Result<Buffer> make(const ContextPtr& context, int64_t bytes, const MemorySource& source = {});
  std::byte* data() const { return data_.get(); }
  CUdeviceptr address() const { return reinterpret_cast<CUdeviceptr>(data_.get()); }
  int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    ContextPtr context;
    MemorySource source = {};
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
Result<DeviceBuffer> DeviceBuffer::make(const ContextPtr& context, int64_t bytes, const MemorySource& source);
template <>
Result<PinnedBuffer> PinnedBuffer::make(const ContextPtr& context, int64_t bytes, const MemorySource& source);

// Makes the buffer at least so large, its contents lost when it grows; true when its address changed.
template <MemoryKind kind>
Result<bool> grow(Buffer<kind>& buffer, const ContextPtr& context, int64_t bytes, const MemorySource& source = {}) {
  if (buffer.bytes() >= bytes) return false;
  buffer = Buffer<kind>();  // first give back, so that both never exist at once
  FUSEC_ASSIGN(buffer, Buffer<kind>::make(context, bytes, source));
  return true;
}

inline CUdeviceptr address_of(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

class GraphCache {
 public:
  static constexpr std::size_t kCapacity = 8;
  // So many sets of addresses in a row without a graph: the caller's pointers rotate.
  static constexpr int kRotating = 2 * kCapacity;

  struct Entry {
    std::vector<void*> addresses;  // of inputs, then outputs
    GraphExec graph;               // null: the addresses were seen once
    uint64_t used = 0;
  };

  // Null: these addresses are new.
  Entry* find(std::span<void* const> inputs, std::span<void* const> outputs);
  // Adds them, in the place of those that were used longest ago.
  Entry& add(std::span<void* const> inputs, std::span<void* const> outputs);
  bool rotating() const { return fresh_in_a_row_ >= kRotating; }
  void settle_down() { fresh_in_a_row_ = 0; }
  void clear() { entries_.clear(); }
  std::size_t size() const { return entries_.size(); }

 private:
  std::vector<Entry> entries_;
  uint64_t clock_ = 0;
  int fresh_in_a_row_ = 0;
};

class Stopwatch {
 public:
  using Work = std::function<Status(void* stream)>;

  static Result<Stopwatch> make(int ordinal);
  // Microseconds on the GPU of what `work` puts on the stream; `before` is put there first and hides the host's part of
  // it. Waits for the end.
  Result<double> time_us(const Work& before, const Work& work) const;
  // The same of work that is captured first, so that its launches take the host no time.
  Result<double> time_captured_us(const Work& before, const Work& work) const;
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

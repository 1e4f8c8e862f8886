// SPDX-License-Identifier: Apache-2.0
#include "bindings/onnxruntime/gpu.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

namespace fusec::ort {
namespace {

// Sizes are rounded up, so that tensors of changing extents use the same memory. 512 is the driver's own alignment.
std::size_t rounded(std::size_t bytes) {
  constexpr std::size_t kSmall = 512, kLarge = std::size_t{1} << 20;
  const std::size_t step = bytes < kLarge ? kSmall : kLarge;
  return std::max(step, (bytes + step - 1) / step * step);
}

// How large a kept block may be for a request: what is left of it is lost while it is used.
std::size_t largest_for(std::size_t bytes) { return bytes + bytes / 4; }

CudaAddress address(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

}  // namespace

Gpu::~Gpu() {
  if (context_ == nullptr) return;
  try {
    const Current current(*this);
    release_kept();
  } catch (const std::exception&) {  // the driver has ended, and the memory with it
  }
  cuda_.release_context(device_);
}

CudaContext Gpu::context() {
  const std::lock_guard lock(mutex_);
  if (context_ == nullptr) {
    cuda_.check(cuda_.get_device(&device_, ordinal_), "cuDeviceGet");
    cuda_.check(cuda_.retain_context(&context_, device_), "cuDevicePrimaryCtxRetain");
  }
  return context_;
}

Gpu::Current::Current(Gpu& gpu) : cuda_(gpu.cuda_) {
  cuda_.check(cuda_.push_context(gpu.context()), "cuCtxPushCurrent");
}

Gpu::Current::~Current() {
  CudaContext ours = nullptr;
  cuda_.pop_context(&ours);
}

void* Gpu::new_memory(std::size_t bytes) {
  CudaAddress memory = 0;
  CudaResult result = cuda_.allocate(&memory, bytes);
  if (result == kCudaOutOfMemory && release_kept()) result = cuda_.allocate(&memory, bytes);
  cuda_.check(result, "cuMemAlloc");
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(memory));
}

void* Gpu::use(void* memory, const Block& block) {
  used_[memory] = block;
  used_bytes_ += block.bytes;
  most_used_ = std::max(most_used_, used_bytes_);
  return memory;
}

// Gives kept memory back to the driver. Answers whether there was any.
bool Gpu::release_kept() {
  const bool any = !kept_.empty();
  for (auto& [bytes, entry] : kept_) {
    cuda_.destroy_event(entry.second.freed);
    cuda_.free(address(entry.first));  // waits for the GPU
  }
  kept_.clear();
  kept_bytes_ = 0;
  return any;
}

// The smallest kept block that is large enough; of those of one size, one of the same stream.
bool Gpu::take_kept(std::size_t bytes, CudaStream stream, void** memory) {
  auto found = kept_.lower_bound(bytes);
  if (found == kept_.end() || found->first > largest_for(bytes)) return false;
  for (auto other = found; other != kept_.end() && other->first == found->first; ++other) {
    if (other->second.second.stream == stream) {
      found = other;
      break;
    }
  }
  auto [address, block] = found->second;
  if (stream == nullptr) {
    cuda_.check(cuda_.wait_for_event(block.freed), "cuEventSynchronize");
  } else if (block.stream != stream) {
    cuda_.check(cuda_.make_stream_wait(stream, block.freed, 0), "cuStreamWaitEvent");
  }
  kept_.erase(found);
  kept_bytes_ -= block.bytes;
  block.stream = stream;
  *memory = use(address, block);
  return true;
}

void* Gpu::allocate(std::size_t bytes, CudaStream stream) {
  const Current current(*this);
  const std::lock_guard lock(mutex_);
  bytes = rounded(bytes);
  void* memory = nullptr;
  if (take_kept(bytes, stream, &memory)) return memory;
  Block block{bytes, stream, nullptr};
  cuda_.check(cuda_.create_event(&block.freed, kCudaEventWithoutTime), "cuEventCreate");
  try {
    memory = use(new_memory(bytes), block);
  } catch (...) {
    cuda_.destroy_event(block.freed);
    throw;
  }
  return memory;
}

void Gpu::free(void* memory) {
  const Current current(*this);
  const std::lock_guard lock(mutex_);
  const auto used = used_.find(memory);
  if (used == used_.end()) throw Failure(ErrorCode::invalid_argument, "fusec: this is no memory of " + name());
  const Block block = used->second;
  cuda_.check(cuda_.record_event(block.freed, block.stream), "cuEventRecord");
  used_.erase(used);
  used_bytes_ -= block.bytes;
  kept_.emplace(block.bytes, std::pair(memory, block));
  kept_bytes_ += block.bytes;
  if (kept_bytes_ > 2 * most_used_) release_kept();  // the sizes change all the time
}

void* Gpu::allocate_host(std::size_t bytes) {
  const Current current(*this);
  void* memory = nullptr;
  cuda_.check(cuda_.allocate_host(&memory, bytes, 0), "cuMemHostAlloc");
  return memory;
}

void Gpu::free_host(void* memory) {
  const Current current(*this);
  cuda_.check(cuda_.free_host(memory), "cuMemFreeHost");
}

void Gpu::copy(void* to, const void* from, std::size_t bytes, CudaStream stream) {
  const Current current(*this);
  cuda_.check(cuda_.copy(address(to), address(from), bytes, stream), "cuMemcpyAsync");
  if (stream == nullptr) cuda_.check(cuda_.wait_for_stream(nullptr), "cuStreamSynchronize");
}

void Gpu::wait_for(CudaStream stream) {
  const Current current(*this);
  cuda_.check(cuda_.wait_for_stream(stream), "cuStreamSynchronize");
}

// The stream waits for the legacy default stream and makes it wait: copies without a stream are in order with it.
CudaStream Gpu::create_stream() {
  const Current current(*this);
  CudaStream stream = nullptr;
  cuda_.check(cuda_.create_stream(&stream, 0), "cuStreamCreate");
  return stream;
}

void Gpu::destroy_stream(CudaStream stream) {
  const Current current(*this);
  const CudaResult waited = cuda_.wait_for_stream(stream);
  {
    const std::lock_guard lock(mutex_);
    for (auto& [memory, block] : used_) {
      if (block.stream == stream) block.stream = nullptr;
    }
    for (auto& [bytes, entry] : kept_) {
      if (entry.second.stream == stream) entry.second.stream = nullptr;
    }
  }
  cuda_.check(cuda_.destroy_stream(stream), "cuStreamDestroy");
  cuda_.check(waited, "cuStreamSynchronize");
}

}  // namespace fusec::ort

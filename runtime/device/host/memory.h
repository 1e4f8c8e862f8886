// SPDX-License-Identifier: Apache-2.0
// Host memory: aligned data buffers, executable images that are never writable and executable at once, and copies
// between strided tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fusec/host.h"
#include "fusec/status.h"

namespace fusec::runtime {

inline constexpr int64_t kAlignment = 64;  // one cache line, one AVX-512 vector

constexpr int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

using HostAllocatorPtr = std::shared_ptr<const HostAllocator>;

// Memory of the host's allocator. out_of_memory: it refused.
Result<void*> allocate_by(const HostAllocator& allocator, const MemoryRequest& request);

// Aligned to kAlignment, contents undefined. Large buffers ask for huge pages.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // allocator: by which memory is had; null: the system's.
  static Result<AlignedBuffer> make(int64_t bytes, const HostAllocatorPtr& allocator = nullptr);
  std::byte* data() const { return data_.get(); }
  int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    HostAllocatorPtr allocator;
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte[], Free> data_;
  int64_t bytes_ = 0;
};

// Several images in one mapping: copied while it is writable, then switched to read-execute.
class CodeMemory {
 public:
  CodeMemory() = default;
  ~CodeMemory();
  CodeMemory(CodeMemory&& other) noexcept;
  CodeMemory& operator=(CodeMemory&& other) noexcept;
  // Each image starts at a multiple of kAlignment. `device` when the system forbids executable memory.
  static Result<CodeMemory> load(std::span<const std::span<const uint8_t>> images);
  const std::byte* image(std::size_t index) const { return base_ + offsets_[index]; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  std::vector<std::size_t> offsets_;
};

// The address of a math function of libm or libmvec; `device` names it when the system has none.
Result<const void*> math_function(const char* name);

// dst[i * dst_strides] = src[i * src_strides] for every index i of `shape`. Strides are in elements of `element` bytes
// (1, 2, 4 or 8). The memory must not overlap.
void strided_copy(void* dst, std::span<const int64_t> dst_strides, const void* src,
                  std::span<const int64_t> src_strides, std::span<const int64_t> shape, int64_t element);

}  // namespace fusec::runtime

// SPDX-License-Identifier: Apache-2.0
// Allocates aligned host buffers, maps machine code for link, and looks up math functions in libm and libmvec; code
// memory is never writable and executable at the same time. Copies strided tensors axis by axis, with memcpy where the
// innermost axis is dense in both, to stage tensors in a run and for `copy` of fusec/device.h.

#include "ir/support/memory.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "fusec/device.h"
#include "runtime/device/host/memory.h"

namespace fusec::runtime {
namespace {

std::string error_text(const char* what) { return std::string(what) + ": " + std::strerror(errno); }

}  // namespace

Result<void*> allocate_by(const HostAllocator& allocator, const MemoryRequest& request) {
  void* const data = allocator.allocate(request);
  if (data != nullptr) return data;
  return Status(StatusCode::out_of_memory, "the host's allocator refused " + std::to_string(request.bytes) +
                                               " bytes on " + to_string(request.device));
}

void AlignedBuffer::Free::operator()(std::byte* data) const {
  if (allocator == nullptr) return std::free(data);
  allocator->free(data, Device{}, nullptr);
}

Result<AlignedBuffer> AlignedBuffer::make(int64_t bytes, const HostAllocatorPtr& allocator) {
  AlignedBuffer buffer;
  if (bytes <= 0) return buffer;
  if (allocator != nullptr) {
    FUSEC_ASSIGN(void* const data, allocate_by(*allocator, {.device = {}, .bytes = bytes, .alignment = kAlignment}));
    buffer.data_ = {static_cast<std::byte*>(data), Free{allocator}};
    buffer.bytes_ = bytes;
    return buffer;
  }
  buffer.data_.reset(static_cast<std::byte*>(ir::allocate_host(static_cast<std::size_t>(bytes))));
  if (buffer.data_ == nullptr) {
    return Status(StatusCode::out_of_memory, std::to_string(bytes) + " bytes of host memory are not to be had");
  }
  buffer.bytes_ = bytes;
  return buffer;
}

CodeMemory::CodeMemory(CodeMemory&& other) noexcept { *this = std::move(other); }

CodeMemory& CodeMemory::operator=(CodeMemory&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(offsets_, other.offsets_);
  return *this;
}

CodeMemory::~CodeMemory() {
  if (base_ != nullptr) (void)munmap(base_, bytes_);
}

Result<CodeMemory> CodeMemory::load(std::span<const std::span<const uint8_t>> images) {
  CodeMemory memory;
  std::size_t total = 0;
  for (const auto& image : images) {
    memory.offsets_.push_back(total);
    total += static_cast<std::size_t>(round_up(static_cast<int64_t>(image.size()), kAlignment));
  }
  if (total == 0) return memory;
  void* base = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return Status(StatusCode::out_of_memory, error_text("no memory for machine code"));
  memory.base_ = static_cast<std::byte*>(base);
  memory.bytes_ = total;
  for (std::size_t i = 0; i < images.size(); ++i) {
    if (images[i].empty()) continue;  // the code of nothing to do
    std::memcpy(memory.base_ + memory.offsets_[i], images[i].data(), images[i].size());
  }
  if (mprotect(base, total, PROT_READ | PROT_EXEC) != 0) {
    return Status(StatusCode::device, error_text("the system forbids executable memory"));
  }
  __builtin___clear_cache(reinterpret_cast<char*>(base), reinterpret_cast<char*>(base) + total);
  return memory;
}

Result<const void*> math_function(const char* name) {
  // Opened once and kept for the life of the process, as every loaded kernel holds addresses in them.
  static void* const kLibm = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
  static void* const kLibmvec = dlopen("libmvec.so.1", RTLD_NOW | RTLD_LOCAL);
  for (void* library : {kLibm, kLibmvec}) {
    if (library == nullptr) continue;
    if (const void* address = dlsym(library, name)) return address;
  }
  return Status(StatusCode::device, std::string("neither libm.so.6 nor libmvec.so.1 has the function '") + name + "'");
}

namespace {

template <int64_t kBytes>
void copy_row(std::byte* dst, int64_t dst_step, const std::byte* src, int64_t src_step, int64_t n) {
  for (int64_t i = 0; i < n; ++i) std::memcpy(dst + i * dst_step, src + i * src_step, static_cast<std::size_t>(kBytes));
}

void copy_axis(std::byte* dst, int64_t dst_step, const std::byte* src, int64_t src_step, int64_t n, int64_t element) {
  if (dst_step == element && src_step == element) {
    std::memcpy(dst, src, static_cast<std::size_t>(n * element));
    return;
  }
  switch (element) {
    case 1:
      return copy_row<1>(dst, dst_step, src, src_step, n);
    case 2:
      return copy_row<2>(dst, dst_step, src, src_step, n);
    case 4:
      return copy_row<4>(dst, dst_step, src, src_step, n);
    default:
      return copy_row<8>(dst, dst_step, src, src_step, n);
  }
}

void copy(std::byte* dst, std::span<const int64_t> dst_strides, const std::byte* src,
          std::span<const int64_t> src_strides, std::span<const int64_t> shape, int64_t element) {
  const int64_t dst_step = dst_strides[0] * element, src_step = src_strides[0] * element;
  if (shape.size() == 1) return copy_axis(dst, dst_step, src, src_step, shape[0], element);
  for (int64_t i = 0; i < shape[0]; ++i) {
    copy(dst + i * dst_step, dst_strides.subspan(1), src + i * src_step, src_strides.subspan(1), shape.subspan(1),
         element);
  }
}

}  // namespace

void strided_copy(void* dst, std::span<const int64_t> dst_strides, const void* src,
                  std::span<const int64_t> src_strides, std::span<const int64_t> shape, int64_t element) {
  for (int64_t extent : shape) {
    if (extent == 0) return;
  }
  if (shape.empty()) {
    std::memcpy(dst, src, static_cast<std::size_t>(element));
    return;
  }
  copy(static_cast<std::byte*>(dst), dst_strides, static_cast<const std::byte*>(src), src_strides, shape, element);
}

}  // namespace fusec::runtime

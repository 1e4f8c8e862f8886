// SPDX-License-Identifier: Apache-2.0
// Copies strided tensors on the host, axis by axis, with memcpy where the innermost axis is dense in both. Used to
// stage tensors in a run and by `copy` of fusec/device.h.

#include "runtime/device/host/strided_copy.h"

#include <cstddef>
#include <cstring>

namespace fusec::runtime {
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

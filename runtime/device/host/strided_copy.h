// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace fusec::runtime {

// dst[i * dst_strides] = src[i * src_strides] for every index i of `shape`. Strides are in elements of `element` bytes
// (1, 2, 4 or 8). The memory must not overlap.
void strided_copy(void* dst, std::span<const int64_t> dst_strides, const void* src,
                  std::span<const int64_t> src_strides, std::span<const int64_t> shape, int64_t element);

}  // namespace fusec::runtime

// SPDX-License-Identifier: Apache-2.0
// Allocates host memory for tensors, arenas and weights: aligned, and on huge pages from 4 MiB on. Returns null instead
// of throwing.

#include "ir/support/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace fusec::ir {

void* allocate_host(std::size_t bytes) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  if (bytes > SIZE_MAX - kHugePage) return nullptr;
  bytes = (std::max<std::size_t>(bytes, 1) + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
  const bool huge = bytes >= 2 * kHugePage;
  void* data = nullptr;
  if (posix_memalign(&data, huge ? kHugePage : kHostAlignment, bytes) != 0) return nullptr;
  if (huge) (void)madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // if refused, small pages are used
  return data;
}

}  // namespace fusec::ir

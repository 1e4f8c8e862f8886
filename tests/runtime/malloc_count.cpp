// SPDX-License-Identifier: Apache-2.0
// Replaces the C library's allocation functions in the test program by ones that count.
#include "tests/runtime/malloc_count.h"

#include <atomic>
#include <cstddef>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FUSEC_COUNTS 1
#else
#define FUSEC_COUNTS 0
#endif

namespace {
std::atomic<int64_t> count{0};
}

namespace fusec::runtime_test {
bool counts_allocations() { return FUSEC_COUNTS != 0; }
int64_t allocations() { return count.load(); }
}  // namespace fusec::runtime_test

#if FUSEC_COUNTS
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t n) {
  ++count;
  return __libc_malloc(n);
}
void* calloc(std::size_t n, std::size_t size) {
  ++count;
  return __libc_calloc(n, size);
}
void* realloc(void* p, std::size_t n) {
  ++count;
  return __libc_realloc(p, n);
}
void* aligned_alloc(std::size_t alignment, std::size_t n) {
  ++count;
  return __libc_memalign(alignment, n);
}
}
#endif

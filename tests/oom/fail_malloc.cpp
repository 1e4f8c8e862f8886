// SPDX-License-Identifier: Apache-2.0
#include "tests/oom/fail_malloc.h"

#include <cerrno>
#include <cstddef>

namespace fusec::oom_test {
namespace {

// Constant-initialised: allocations come before any constructor runs.
bool armed = false, failed = false;
int64_t count = 0, fail_at = 0;
Mode fail_mode = Mode::once;

}  // namespace

bool must_fail() {
  if (!armed) return false;
  ++count;
  if (fail_at <= 0 || count < fail_at || (fail_mode == Mode::once && count > fail_at)) return false;
  failed = true;
  errno = ENOMEM;
  return true;
}

void arm(int64_t n, Mode mode) {
  count = 0;
  failed = false;
  fail_at = n;
  fail_mode = mode;
  armed = true;
}

int64_t disarm() {
  armed = false;
  return count;
}

bool has_failed() { return failed; }

}  // namespace fusec::oom_test

using fusec::oom_test::must_fail;

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t n) { return must_fail() ? nullptr : __libc_malloc(n); }
void* calloc(std::size_t n, std::size_t size) { return must_fail() ? nullptr : __libc_calloc(n, size); }
void* realloc(void* p, std::size_t n) { return must_fail() ? nullptr : __libc_realloc(p, n); }
void* aligned_alloc(std::size_t alignment, std::size_t n) {
  return must_fail() ? nullptr : __libc_memalign(alignment, n);
}
void* memalign(std::size_t alignment, std::size_t n) { return must_fail() ? nullptr : __libc_memalign(alignment, n); }
int posix_memalign(void** out, std::size_t alignment, std::size_t n) {
  void* const p = must_fail() ? nullptr : __libc_memalign(alignment, n);
  if (p == nullptr) return ENOMEM;
  *out = p;
  return 0;
}
}

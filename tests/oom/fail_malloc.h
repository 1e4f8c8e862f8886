// SPDX-License-Identifier: Apache-2.0
// The C library's allocation functions of this program, made to fail on request. operator new and all libraries go
// through them. For one thread.
#pragma once

#include <cstdint>

namespace fusec::oom_test {

enum class Mode { once, always };  // the n-th allocation fails, or all from the n-th on

// Counts allocations from here on; n <= 0: none fails.
void arm(int64_t n, Mode mode);
// Ends both; answers how many allocations there were.
int64_t disarm();
// Whether one failed since `arm`.
bool has_failed();

}  // namespace fusec::oom_test

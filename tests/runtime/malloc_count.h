// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fusec::runtime_test {

// Whether this build counts heap allocations (sanitizers have their own allocator).
bool counts_allocations();
// Allocations of all threads since the process started.
int64_t allocations();

}  // namespace fusec::runtime_test

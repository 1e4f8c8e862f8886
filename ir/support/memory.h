// SPDX-License-Identifier: Apache-2.0
// Host memory for data: aligned, and on huge pages where it is large.
#pragma once

#include <cstddef>

namespace fusec::ir {

inline constexpr std::size_t kHostAlignment = 64;  // one cache line, one AVX-512 vector

// At least `bytes` (rounded up to kHostAlignment, never 0), contents undefined, aligned to kHostAlignment; null when
// there is none. From 4 MiB on it starts on a huge page and asks for more of them: walking a few hundred MB is a
// quarter to a half faster than on pages of 4 KiB. Released with std::free.
void* allocate_host(std::size_t bytes);

}  // namespace fusec::ir

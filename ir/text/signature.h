// SPDX-License-Identifier: Apache-2.0
// Which kernels are the same code: names do not matter, the order of parameters and extents does.
#pragma once

#include <string>

#include "ir/kernel/kernel.h"

namespace fusec::ir {

// values: registers (v0, v1, ...) and loop variables (i0, i1, ...) in order of appearance, registers and buffers that
// nothing declares dropped. everything: also the kernel (k), buffers (b0, ...: parameters, then allocations) and
// extents (n0, ... in launch order).
enum class Renaming { values, everything };
Kernel renamed(const Kernel& kernel, Renaming what);

// The text of renamed(kernel, everything). Kernels with equal text are interchangeable: same parameters, same extents,
// both in order. It is the base of the cache key.
std::string canonical_text(const Kernel& kernel);
// SHA-256 of the canonical text, 64 hexadecimal digits.
std::string signature(const Kernel& kernel);

}  // namespace fusec::ir

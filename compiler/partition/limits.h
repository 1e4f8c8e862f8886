// SPDX-License-Identifier: Apache-2.0
// Bounds on what one generated kernel holds. They keep the time to compile a kernel below two seconds, and that of a
// model in proportion to its size.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fusec::compiler {

// Larger regions compile slowly and gain nothing: their values no longer fit in registers.
inline constexpr size_t kMaxNodes = 256;
inline constexpr size_t kMaxRowNodes = 96;
inline constexpr size_t kMaxOutputs = 8;
// The sum of ScalarOpInfo::cost over the scalar ops of a region. LLVM takes some 0.5 ms per unit, and more than in
// proportion above this: 256 mish (11,000 units) took 20 s.
inline constexpr int kMaxCost = 1536;
// Operands of a concat that one kernel copies, a loop nest each.
inline constexpr size_t kMaxConcatOperands = 64;
// Slices of one value whose kernels hold where they begin. Of more, the place is an argument, so that slices of one
// size are one kernel: a Split to 3,000 outputs is two.
inline constexpr size_t kMaxSlicesInPlace = 16;
// Operands that one element chooses from, of all concats of a region that are not cut into a loop nest per operand.
inline constexpr int64_t kMaxSelected = 32;

}  // namespace fusec::compiler

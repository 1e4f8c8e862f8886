// SPDX-License-Identifier: Apache-2.0
// Bounds on the contents of one generated kernel. They keep the time to compile a kernel below two seconds, and the
// time to compile a model proportional to its size.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fusec::compiler {

// Larger regions compile slowly and gain nothing: their values no longer fit in registers. A window of 11 x 11 places,
// whose rows become a loop, has three nodes for each.
inline constexpr size_t kMaxNodes = 384;
inline constexpr size_t kMaxRowNodes = 96;
inline constexpr size_t kMaxOutputs = 8;
// The sum of ScalarOpInfo::cost over the scalar ops of a region. LLVM takes about 0.5 ms per unit, and superlinear time
// above this bound: 256 mish (11,000 units) took 20 s.
inline constexpr int kMaxCost = 1536;
// The most operands of a concat that one kernel copies, with a loop nest for each.
inline constexpr size_t kMaxConcatOperands = 64;
// The most slices of one value whose kernels contain the position at which the slice begins. Beyond this number the
// position is an argument, so that slices of one size are one kernel: a Split to 3,000 outputs takes two kernels.
inline constexpr size_t kMaxSlicesInPlace = 16;
// The most operands from which one element selects, over all concats of a region that are not split into a loop nest
// per operand.
inline constexpr int64_t kMaxSelected = 32;

}  // namespace fusec::compiler

// SPDX-License-Identifier: Apache-2.0
// How fine the numbers are that a register of a kernel can hold: what a 16-bit value gives, sums and products keep.
#pragma once

#include "ir/kernel/kernel.h"

namespace fusec::ir {

// Every finite value is a multiple of 2^least and has at most `count` binary digits from its first to its last that is
// set.
struct KnownBits {
  int least = 0, count = 0;
  bool operator==(const KnownBits&) const = default;
};

IdVector<RegId, KnownBits> known_bits_of(const Kernel& kernel);
KnownBits known_bits_of(const Constant& value);

}  // namespace fusec::ir

// SPDX-License-Identifier: Apache-2.0
// Known bits of float registers: how fine the values are that a register of a kernel can hold. 16-bit values and
// their products have few significant bits; a sum keeps the power of two that divides both terms.
#pragma once

#include "ir/kernel/kernel.h"

namespace fusec::ir {

// Every finite value is a multiple of 2^least and has at most `count` significant bits, counted from its first to its
// last set bit.
struct KnownBits {
  int least = 0, count = 0;
  bool operator==(const KnownBits&) const = default;
};

IdVector<RegId, KnownBits> compute_known_bits(const Kernel& kernel);
KnownBits compute_known_bits(const Constant& value);

}  // namespace fusec::ir

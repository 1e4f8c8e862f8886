// SPDX-License-Identifier: Apache-2.0
// Ranges of integer registers: what min, max and their like leave of values that come from data.
#pragma once

#include "ir/kernel/kernel.h"

namespace fusec::ir {

// Every lane of the register is in lo ... hi.
struct ValueRange {
  int64_t lo = 0, hi = 0;
  bool operator==(const ValueRange&) const = default;
};

// For registers of u64 and floats, the range is that of i64 and means nothing.
IdVector<RegId, ValueRange> compute_value_ranges(const Kernel& kernel);
// Whether the register is an integer whose range is less than that of its type.
bool is_bounded(const Kernel& kernel, RegId reg, const ValueRange& range);

}  // namespace fusec::ir

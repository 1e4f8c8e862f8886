// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusec/dim.h"

namespace fusec {

using Shape = std::vector<Dim>;

// The values that an extent may have, both ends included.
struct FUSEC_API ExtentRange {
  int64_t least = 0, most = INT64_MAX;
  bool operator==(const ExtentRange&) const = default;
};

FUSEC_API std::string to_string(const Shape& shape);  // "[N, 3, 224]"
FUSEC_API bool is_const(const Shape& shape);
FUSEC_API Dim num_elements(const Shape& shape);          // 1 for rank 0
FUSEC_API Shape contiguous_strides(const Shape& shape);  // in elements, row-major

}  // namespace fusec

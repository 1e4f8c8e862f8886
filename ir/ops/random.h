// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "fusec/dtype.h"
#include "fusec/status.h"
#include "fusec/tensor.h"

namespace fusec::ir {

// A float of mean 0 and variance 1 that depends on seed and index only, and is the same on every machine: the centred
// sum of four 16-bit parts of one hash, which approximates the normal distribution and stays within +-3.47.
double random_float(uint64_t seed, uint64_t index);

// Element i (row-major) is random_float(seed, i) rounded to the dtype; integers are uniform in 0...9, bools fair.
Result<Tensor> random_tensor(DType dtype, std::vector<int64_t> shape, uint64_t seed);

}  // namespace fusec::ir

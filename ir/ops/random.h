// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "fusec/dtype.h"
#include "fusec/status.h"
#include "fusec/tensor.h"

namespace fusec::ir {

// A float of mean 0 and variance 1 that depends only on seed and index and is the same on every machine. It is the
// centred sum of four 16-bit parts of one hash, which approximates a normal distribution within +-3.47.
double random_float(uint64_t seed, uint64_t index);

// Element i (row-major) is random_float(seed, i), rounded to the dtype. Integers are uniform in 0...9; bools are true
// or false with equal probability.
Result<Tensor> random_tensor(DType dtype, std::vector<int64_t> shape, uint64_t seed);

}  // namespace fusec::ir

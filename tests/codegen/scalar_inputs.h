// SPDX-License-Identifier: Apache-2.0
// What tests of scalar ops share: operands worth trying, and errors in units in the last place.
#pragma once

#include <cstdint>
#include <vector>

#include "fusec/tensor.h"
#include "ir/ops/op.h"

namespace fusec::codegen_test {

// Exact bits of the dtype.
void put_bits(Tensor& t, int64_t i, uint64_t bits);
// Zeros, ones, bounds of all types, halves between integers, denormals, infinities, NaN.
std::vector<uint64_t> special_bits(DType dtype);
// Error in units in the last place of `dtype` at the unrounded `want`; an infinity where it counts as no error at all.
double compute_error(DType dtype, const char* got, double want);
// All rows of the op table but definitions and cast.
std::vector<ir::ScalarOp> primitives();

}  // namespace fusec::codegen_test

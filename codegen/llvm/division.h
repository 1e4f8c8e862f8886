// SPDX-License-Identifier: Apache-2.0
// Divisions of several f32 by one divisor on the host, by the two parts of its reciprocal: two instructions in place of
// a correction and a test of each vector.
#pragma once

#include <set>

#include "codegen/llvm/values.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen {

// The quotients of a kernel that div_by_parts may compute, because no exact quotient lies close to the midpoint of two
// floats: the divisor has at most 11 significant bits, as f16 and bf16 have, and the dividend is a multiple of 2^-90.
std::set<ir::RegId> find_divisions_by_parts(const ir::Kernel& kernel);

// x / y for one y: x times both parts of 1/y, which rounds as the division does but for exact quotients within a
// relative 2^-44 of the midpoint of two floats. Requires fused multiply-add.
llvm::Value* div_by_parts(Ir& ir, llvm::Value* x, llvm::Value* y);

}  // namespace fusec::codegen

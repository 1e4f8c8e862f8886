// SPDX-License-Identifier: Apache-2.0
// Converts arrays of f32, such as weights, to f16 or bf16. Each element gets the bits that ir/ops/cast.h defines.
#pragma once

#include <cstdint>

#include "fusec/dtype.h"

namespace fusec::ir {

// The result for a finite number above the largest f16.
enum class Beyond : uint8_t { infinity, largest };

// `to` is f16 or bf16. Uses the CPU's vector instructions where it has them; `plain` never does.
void narrow_f32(DType to, const float* from, int64_t count, Beyond beyond, uint16_t* out);
void narrow_f32_plain(DType to, const float* from, int64_t count, Beyond beyond, uint16_t* out);

}  // namespace fusec::ir

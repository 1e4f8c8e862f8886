// SPDX-License-Identifier: Apache-2.0
// Arrays of f32 to f16 or bf16, as weights are: each element with the bits that ir/ops/cast.h gives it.
#pragma once

#include <cstdint>

#include "fusec/dtype.h"

namespace fusec::ir {

// What a finite number past the largest one of f16 becomes.
enum class Beyond : uint8_t { infinity, largest };

// `to` is f16 or bf16; by the processor's own instructions where it has them, `plain` never uses them.
void narrow_f32(DType to, const float* from, int64_t count, Beyond beyond, uint16_t* out);
void narrow_f32_plain(DType to, const float* from, int64_t count, Beyond beyond, uint16_t* out);

}  // namespace fusec::ir

// SPDX-License-Identifier: Apache-2.0
// Exact conversions between element types. Rounding is to nearest, ties to even, and happens once. Denormals and NaN
// are kept (a NaN keeps its sign and upper payload bits and becomes quiet). Arrays of f32, such as weights, are
// narrowed to f16 or bf16 with the same bits.
#pragma once

#include <cstdint>

#include "fusec/dtype.h"

namespace fusec::ir {

uint16_t f16_from_f32(float value);
uint16_t bf16_from_f32(float value);
uint16_t f16_from_f64(double value);
uint16_t bf16_from_f64(double value);
float f32_from_f16(uint16_t bits);
float f32_from_bf16(uint16_t bits);
inline float f32_from_f64(double value) { return static_cast<float>(value); }

// Floats to integers: truncate, saturate; NaN gives 0.
int64_t i64_from_f64(double value);
uint64_t u64_from_f64(double value);

// One element at `at`, which need not be aligned. load_double rounds integers above 2^53. bool is 0 or 1.
double load_double(DType dtype, const void* at);
// Like a cast from f64: floats round once, integers truncate and saturate, NaN gives 0; bool is value != 0.
void store_double(DType dtype, void* at, double value);
// The value of an integer or bool element; u64 above 2^63 - 1 wraps. Floats truncate and saturate.
int64_t load_int(DType dtype, const void* at);
// Integers wrap to the width, bool is value != 0, floats round once.
void store_int(DType dtype, void* at, int64_t value);

// The result for a finite number that rounds to none of the type.
enum class Beyond : uint8_t { infinity, largest };

// `to` is f16 or bf16. Uses the CPU's vector instructions where it has them; `plain` never does.
void narrow_f32(DType to, const float* from, int64_t count, Beyond beyond, uint16_t* out);
void narrow_f32_plain(DType to, const float* from, int64_t count, Beyond beyond, uint16_t* out);

}  // namespace fusec::ir

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "fusec/export.h"

namespace fusec {

// Element types. bool_ is one byte, 0 or 1.
enum class DType : uint8_t { f64, f32, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, bool_ };
inline constexpr int kDTypeCount = 13;

FUSEC_API const char* to_string(DType dtype);                       // "f32", "bool", ...
FUSEC_API std::optional<DType> parse_dtype(std::string_view text);  // the inverse
FUSEC_API std::size_t size_of(DType dtype);                         // bytes of one element

constexpr bool is_float(DType t) { return t <= DType::bf16; }
constexpr bool is_int(DType t) { return t >= DType::i8 && t <= DType::u64; }
constexpr bool is_signed_int(DType t) { return t >= DType::i8 && t <= DType::i64; }
constexpr bool is_unsigned_int(DType t) { return t >= DType::u8 && t <= DType::u64; }
constexpr bool is_16_bit_float(DType t) { return t == DType::f16 || t == DType::bf16; }
// The type a kernel computes in: f32 for f16 and bf16, else the type itself.
constexpr DType compute_type(DType t) { return is_16_bit_float(t) ? DType::f32 : t; }

}  // namespace fusec

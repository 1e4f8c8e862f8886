// SPDX-License-Identifier: Apache-2.0
#include "ir/ops/cast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace fusec::ir {
namespace {

// The value of a 16-bit float by its definition.
double decode_value(uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction ? std::nan("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

struct Format {
  DType dtype;
  int exponent_bits;
  float (*widen)(uint16_t);
  uint16_t (*from_f32)(float);
  uint16_t (*from_f64)(double);
};
const Format kFormats[] = {{DType::f16, 5, f32_from_f16, f16_from_f32, f16_from_f64},
                           {DType::bf16, 8, f32_from_bf16, bf16_from_f32, bf16_from_f64}};

TEST(Cast, EveryHalfWidensExactlyAndComesBack) {
  for (const Format& f : kFormats) {
    for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
      const uint16_t h = static_cast<uint16_t>(bits);
      const double expected = decode_value(h, f.exponent_bits);
      const float wide = f.widen(h);
      ASSERT_EQ(std::signbit(wide), bits >> 15 != 0);
      if (std::isnan(expected)) {
        const uint16_t quiet = static_cast<uint16_t>(h | 1 << (14 - f.exponent_bits));
        ASSERT_TRUE(std::isnan(wide)) << bits;
        ASSERT_EQ(f.from_f32(wide) | 1 << (14 - f.exponent_bits), quiet) << bits;
        continue;
      }
      ASSERT_EQ(static_cast<double>(wide), expected) << bits;
      ASSERT_EQ(f.from_f32(wide), h) << bits;
      ASSERT_EQ(f.from_f64(expected), h) << bits;
      ASSERT_EQ(load_double(f.dtype, &h), expected) << bits;
    }
  }
}

// Between each pair of neighbours: just below the middle, the middle and just above it.
TEST(Cast, HalvesRoundToNearestEven) {
  for (const Format& f : kFormats) {
    const uint16_t infinity = static_cast<uint16_t>(((1 << f.exponent_bits) - 1) << (15 - f.exponent_bits));
    for (uint16_t h = 0; h < infinity; ++h) {
      const uint16_t next = static_cast<uint16_t>(h + 1);
      const double lo = decode_value(h, f.exponent_bits);
      const double step = h + 1 < infinity ? decode_value(next, f.exponent_bits) - lo
                                           : lo - decode_value(static_cast<uint16_t>(h - 1), f.exponent_bits);
      const double middle = lo + step / 2;
      ASSERT_EQ(f.from_f64(std::nextafter(middle, 0)), h);
      ASSERT_EQ(f.from_f64(middle), h & 1 ? next : h);
      ASSERT_EQ(f.from_f64(std::nextafter(middle, INFINITY)), next);
      ASSERT_EQ(f.from_f64(-middle), (h & 1 ? next : h) | 0x8000);
      ASSERT_EQ(f.from_f32(static_cast<float>(middle)), h & 1 ? next : h);
    }
  }
}

TEST(Cast, RoundsOnce) {
  // 1 + 2^-11 + 2^-40 is above the middle of two f16; through f32 it would fall on it and round down to 1.
  EXPECT_EQ(f16_from_f64(1 + 0x1p-11 + 0x1p-40), 0x3c01);
  EXPECT_EQ(bf16_from_f64(1 + 0x1p-8 + 0x1p-40), 0x3f81);
  uint16_t h;
  // The same with an integer past 2^53, where the conversion to f64 would be the first rounding.
  store_int(DType::bf16, &h, (int64_t{1} << 62) + (int64_t{1} << 54) + 1);
  EXPECT_EQ(h, bf16_from_f64(0x1p62 + 0x1p55));
  store_int(DType::bf16, &h, -((int64_t{1} << 62) + (int64_t{1} << 54) + 1));
  EXPECT_EQ(h, bf16_from_f64(-0x1p62 - 0x1p55));
  EXPECT_EQ(f16_from_f64(5e-324), 0);
  EXPECT_EQ(f16_from_f64(-5e-324), 0x8000);
  EXPECT_EQ(bf16_from_f32(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(Cast, FloatsToIntegersSaturate) {
  const auto stored = [](DType dtype, double value) {
    char bytes[8] = {};
    store_double(dtype, bytes, value);
    return load_int(dtype, bytes);
  };
  EXPECT_EQ(stored(DType::i8, 127.9), 127);
  EXPECT_EQ(stored(DType::i8, 300), 127);
  EXPECT_EQ(stored(DType::i8, -1e30), -128);
  EXPECT_EQ(stored(DType::u8, -1), 0);
  EXPECT_EQ(stored(DType::u8, 255.5), 255);
  EXPECT_EQ(stored(DType::i32, -2147483648.0), INT32_MIN);
  EXPECT_EQ(stored(DType::i32, 2147483648.0), INT32_MAX);
  EXPECT_EQ(stored(DType::u32, 4294967296.0), 4294967295);
  EXPECT_EQ(stored(DType::i64, 0x1p63), INT64_MAX);
  EXPECT_EQ(stored(DType::i64, -0x1p63), INT64_MIN);
  EXPECT_EQ(stored(DType::u64, 0x1p64), -1);
  EXPECT_EQ(stored(DType::u64, 0x1p63), INT64_MIN);
  EXPECT_EQ(stored(DType::i32, std::nan("")), 0);
  EXPECT_EQ(stored(DType::u64, -INFINITY), 0);
  EXPECT_EQ(stored(DType::i16, -1.9), -1);
  EXPECT_EQ(stored(DType::bool_, 0.25), 1);
  EXPECT_EQ(stored(DType::bool_, std::nan("")), 1);
  EXPECT_EQ(stored(DType::bool_, -0.0), 0);
}

TEST(Cast, IntegersWrap) {
  const auto stored = [](DType dtype, int64_t value) {
    char bytes[8] = {};
    store_int(dtype, bytes, value);
    return load_int(dtype, bytes);
  };
  EXPECT_EQ(stored(DType::i8, 128), -128);
  EXPECT_EQ(stored(DType::u8, -1), 255);
  EXPECT_EQ(stored(DType::i16, 65537), 1);
  EXPECT_EQ(stored(DType::u32, -1), 4294967295);
  EXPECT_EQ(stored(DType::bool_, 256), 1);
  EXPECT_EQ(stored(DType::f32, 1 << 20), 1 << 20);
}

}  // namespace
}  // namespace fusec::ir

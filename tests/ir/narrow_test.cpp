// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "ir/ops/cast.h"

namespace fusec::ir {
namespace {

// Around each value of both 16-bit types: itself, its neighbours in f32, the middle to the next one and its neighbours.
std::vector<float> borders() {
  std::vector<float> values;
  const auto add_around = [&](float x) {
    const auto bits = std::bit_cast<uint32_t>(x);
    for (const uint32_t b : {bits - 1, bits, bits + 1}) values.push_back(std::bit_cast<float>(b));
  };
  for (uint32_t h = 0; h <= 0xffff; ++h) {
    for (float (*widen)(uint16_t) : {f32_from_f16, f32_from_bf16}) {
      const float here = widen(static_cast<uint16_t>(h)), next = widen(static_cast<uint16_t>(h + 1));
      add_around(here);
      add_around(here / 2 + next / 2);
    }
  }
  return values;
}

std::vector<float> any_bits(int count) {
  std::mt19937 random(1);
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  return values;
}

// With and without the processor's instructions.
void expect_bits(const std::vector<float>& values) {
  for (const DType to : {DType::f16, DType::bf16}) {
    std::vector<uint16_t> out(values.size()), plain(values.size());
    const auto count = static_cast<int64_t>(values.size());
    narrow_f32(to, values.data(), count, Beyond::infinity, out.data());
    narrow_f32_plain(to, values.data(), count, Beyond::infinity, plain.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const uint16_t expected = to == DType::f16 ? f16_from_f32(values[i]) : bf16_from_f32(values[i]);
      ASSERT_EQ(out[i], expected) << std::hex << std::bit_cast<uint32_t>(values[i]) << " to " << to_string(to);
      ASSERT_EQ(plain[i], expected);
    }
  }
}

TEST(Narrow, EqualsTheScalarConversion) {
  expect_bits(borders());
  expect_bits(any_bits(1 << 20));
}

TEST(Narrow, ShortArraysAndTheirEnds) {
  for (int count = 0; count < 20; ++count) {
    const std::vector<float> values = any_bits(count);
    expect_bits(values);
    std::vector<uint16_t> out(values.size() + 1, 0x1234);
    narrow_f32(DType::f16, values.data(), count, Beyond::infinity, out.data());
    EXPECT_EQ(out.back(), 0x1234);
  }
}

TEST(Narrow, FiniteNumbersStayFiniteWhereAsked) {
  std::vector<float> values = {-1e9F, 1e9F, 65520, -65520, 65504, 65519, 1, INFINITY, -INFINITY};
  while (values.size() < 64) values.push_back(3e38F);
  const std::vector<uint16_t> expected = {0xfbff, 0x7bff, 0x7bff, 0xfbff, 0x7bff, 0x7bff, 0x3c00, 0x7c00, 0xfc00};
  std::vector<uint16_t> out(values.size()), plain(values.size());
  narrow_f32(DType::f16, values.data(), static_cast<int64_t>(values.size()), Beyond::largest, out.data());
  narrow_f32_plain(DType::f16, values.data(), static_cast<int64_t>(values.size()), Beyond::largest, plain.data());
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(out[i], i < expected.size() ? expected[i] : 0x7bff) << values[i];
  EXPECT_EQ(out, plain);
  std::vector<float> most(64, 0x1.FFp127F);  // halfway between the largest bf16 and the next number
  most[1] = -0x1.FFFFFEp127F, most[2] = INFINITY, most[3] = -INFINITY, most[4] = 0x1.FEp127F, most[5] = 1;
  const std::vector<uint16_t> of_most = {0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7f7f, 0x3f80};
  out.resize(most.size()), plain.resize(most.size());
  narrow_f32(DType::bf16, most.data(), static_cast<int64_t>(most.size()), Beyond::largest, out.data());
  narrow_f32_plain(DType::bf16, most.data(), static_cast<int64_t>(most.size()), Beyond::largest, plain.data());
  for (std::size_t i = 0; i < most.size(); ++i) EXPECT_EQ(out[i], i < of_most.size() ? of_most[i] : 0x7f7f) << most[i];
  EXPECT_EQ(out, plain);
  std::vector<float> odd = any_bits(1 << 16);
  out.resize(odd.size()), plain.resize(odd.size());
  for (const DType to : {DType::f16, DType::bf16}) {
    narrow_f32(to, odd.data(), static_cast<int64_t>(odd.size()), Beyond::largest, out.data());
    narrow_f32_plain(to, odd.data(), static_cast<int64_t>(odd.size()), Beyond::largest, plain.data());
    EXPECT_EQ(out, plain);
  }
}

}  // namespace
}  // namespace fusec::ir

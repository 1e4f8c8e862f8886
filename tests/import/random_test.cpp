// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/import/onnx/tensor.h"

namespace fusec::importer {
namespace {

// The known answers that come with the generator's reference implementation.
TEST(Random, PhiloxKnownAnswers) {
  using Block = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, 0, 0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, ~0u, ~0u), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

Tensor filled(int64_t n, const WeightDistribution& recipe, uint64_t seed, const std::string& name) {
  Tensor tensor = make_tensor(DType::f32, {n});
  fill_random(tensor, recipe, seed, name);
  return tensor;
}

TEST(Random, MomentsAndFloor) {
  constexpr int64_t kCount = 200'000;
  Tensor t = filled(kCount, {3, 2, -1}, 7, "w");
  double sum = 0, squares = 0, lowest = 1e9;
  Tensor free = filled(kCount, {3, 2, -1e9}, 7, "w");
  for (int64_t i = 0; i < kCount; ++i) {
    double x = load_f64(free, i);
    sum += x;
    squares += (x - 3) * (x - 3);
    lowest = std::min(lowest, load_f64(t, i));
  }
  // Five standard errors: 2 / sqrt(n) of the mean, 4 * sqrt(2 / n) of the variance.
  EXPECT_NEAR(sum / kCount, 3, 5 * 2 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 4, 5 * 4 * std::sqrt(2.0 / kCount));
  EXPECT_EQ(lowest, -1);
}

TEST(Random, AnElementDependsOnSeedNameAndPlaceAlone) {
  Tensor a = filled(100'001, {0, 1, -1e9}, 1, "w"), shorter = filled(5, {0, 1, -1e9}, 1, "w");
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(load_f64(a, i), load_f64(shorter, i));
  EXPECT_NE(load_f64(a, 0), load_f64(filled(1, {0, 1, -1e9}, 2, "w"), 0));
  EXPECT_NE(load_f64(a, 0), load_f64(filled(1, {0, 1, -1e9}, 1, "v"), 0));
  EXPECT_NE(load_f64(a, 0), load_f64(a, 1));
}

TEST(Random, Recipes) {
  auto recipes = parse_recipes(R"({"a.b": [1, 2.5, -3e-1], "é": [0, 1, 0]})");
  ASSERT_TRUE(recipes.ok());
  EXPECT_EQ(recipes->at("a.b").std, 2.5);
  EXPECT_EQ(recipes->at("a.b").min, -0.3);
  EXPECT_EQ(recipes->count("é"), 1u);
  for (const char* bad : {"", "[]", "{\"a\": 1}", "{\"a\": [1, 2]}", "{\"a\": [1, 2, \"x\"]}", "{\"a\": [1, 2, 3]"}) {
    EXPECT_FALSE(parse_recipes(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace fusec::importer

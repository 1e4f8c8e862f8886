// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ir/eval/combine.h"
#include "ir/ops/cast.h"

namespace fusec::ir {
namespace {

constexpr TupleTypes kF32 = {DType::f32, DType::f32, DType::f32};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<float> values(int64_t n) {
  std::vector<float> out;
  for (int64_t i = 0; i < n; ++i)
    out.push_back(static_cast<float>(std::sin(static_cast<double>(i) * 1.7) * std::exp2(i % 19)));
  return out;
}

float folded(Tree tree, const std::vector<float>& x) {
  TreeCombiner fold(Combiner::add, kF32, tree, static_cast<int64_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) fold.add(static_cast<int64_t>(i), {Number{x[i], 0}});
  return static_cast<float>(fold.finish()[0].f);
}

TEST(KernelCombine, TreeOneLaneIsSequence) {
  const std::vector<float> x = values(1000);
  float sum = 0;
  for (const float v : x) sum += v;
  EXPECT_EQ(folded({1, 0}, x), sum);
}

TEST(KernelCombine, TreeLanesAndChunks) {
  // 4 lanes, chunks of 8, 37 elements: five chunks, written out.
  const std::vector<float> x = values(37);
  float chunk[5];
  for (int c = 0; c < 5; ++c) {
    float lane[4] = {};
    for (int i = 8 * c; i < std::min(37, 8 * c + 8); ++i) lane[i % 4] += x[static_cast<std::size_t>(i)];
    chunk[c] = (lane[0] + lane[1]) + (lane[2] + lane[3]);
  }
  EXPECT_EQ(folded({4, 8}, x), ((chunk[0] + chunk[1]) + (chunk[2] + chunk[3])) + chunk[4]);
  EXPECT_NE(folded({4, 8}, x), folded({1, 0}, x));
}

TEST(KernelCombine, BalancedTreeTakesAdjacentPairsFirst) {
  const std::vector<float> x = values(6);
  EXPECT_EQ(folded({0, 0}, x), ((x[0] + x[1]) + (x[2] + x[3])) + (x[4] + x[5]));
}

TEST(KernelCombine, LeftOutElementsKeepTheirPlaces) {
  TreeCombiner fold(Combiner::max, kF32, {4, 8}, 40);
  fold.add(3, {Number{-7, 0}});
  fold.add(35, {Number{-5, 0}});
  EXPECT_EQ(fold.finish()[0].f, -5);
  TreeCombiner none(Combiner::max, kF32, {4, 8}, 40);
  EXPECT_EQ(none.finish()[0].f, -kInf);
  EXPECT_EQ(TreeCombiner(Combiner::mul, kF32, {1, 0}, 0).finish()[0].f, 1);
}

Tuple arg(Combiner c, const std::vector<double>& x, Tree tree = {4, 0}) {
  const TupleTypes types = {DType::f32, DType::i64, DType::f32};
  TreeCombiner fold(c, types, tree, static_cast<int64_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i)
    fold.add(static_cast<int64_t>(i), {Number{x[i], 0}, Number{0, static_cast<int64_t>(i)}});
  return fold.finish();
}

TEST(KernelCombine, ArgTies) {
  const std::vector<double> x = {1, 5, 0, 5, 0, -2, 5, 0};
  EXPECT_EQ(arg(Combiner::argmax, x)[1].i, 1);
  EXPECT_EQ(arg(Combiner::argmax_last, x)[1].i, 6);
  EXPECT_EQ(arg(Combiner::argmin, {3, -1, -1})[1].i, 1);
  EXPECT_EQ(arg(Combiner::argmin_last, {3, -1, -1})[1].i, 2);
  EXPECT_EQ(arg(Combiner::argmax, {1, kNan, 9, kNan})[1].i, 1);
  EXPECT_EQ(arg(Combiner::argmin, {1, kNan, -9, kNan})[1].i, 1);
  EXPECT_EQ(arg(Combiner::argmax, {-kInf, -kInf})[1].i, 0);
  EXPECT_EQ(arg(Combiner::argmax_last, {-kInf, -kInf})[1].i, 1);
}

TEST(KernelCombine, Welford) {
  const std::vector<float> x = {1000, 1001, 1002, 1004};
  TreeCombiner fold(Combiner::welford, kF32, {2, 0}, 4);
  for (int i = 0; i < 4; ++i) fold.add(i, {Number{x[static_cast<std::size_t>(i)], 0}, Number{}, Number{1, 0}});
  const Tuple t = fold.finish();
  EXPECT_EQ(t[0].f, 1001.75);
  EXPECT_EQ(t[1].f, 8.75);
  EXPECT_EQ(t[2].f, 4);
}

TEST(KernelCombine, MaxSumKeepsInfinitiesAndNan) {
  const auto fold = [](const std::vector<double>& x) {
    TreeCombiner f(Combiner::max_sum, kF32, {4, 0}, static_cast<int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) f.add(static_cast<int64_t>(i), {Number{x[i], 0}, Number{1, 0}});
    return f.finish();
  };
  EXPECT_EQ(fold({2, 2, 2})[1].f, 3);
  EXPECT_EQ(fold({-kInf, -kInf})[1].f, 2);
  EXPECT_EQ(fold({-kInf, 4})[1].f, 1);
  EXPECT_TRUE(std::isnan(fold({1, kNan})[1].f));
}

TEST(KernelCombine, EveryStepRounds) {
  const std::vector<float> big = {16777216.0f, 1, 0, 1};
  EXPECT_EQ(folded({1, 0}, big), 16777216.0f);
  EXPECT_EQ(folded({2, 0}, big), 16777218.0f);
  const TupleTypes i8 = {DType::i8, DType::i8, DType::i8};
  EXPECT_EQ(combine(Combiner::add, i8, {Number{0, 100}}, {Number{0, 100}})[0].i, -56);
}

// All evaluators and writers share the identities, so comparing them finds no mistake here.
TEST(KernelCombine, IdentitiesChangeNoValue) {
  const Combiner kOfNumbers[] = {Combiner::add, Combiner::mul, Combiner::max, Combiner::min};
  for (const DType t : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i8, DType::i16, DType::i32, DType::i64,
                        DType::u8, DType::u16, DType::u32, DType::u64}) {
    const Number kSmall[] = {{3, 3}, {0, 0}, {1, 1}, {-kInf, -7}, {kInf, -1}};
    for (const Combiner c : kOfNumbers) {
      for (const Number& small : kSmall) {
        const Tuple x = {rounded(t, is_float(t) ? Number{small.f, 0} : Number{0, small.i})};
        const Tuple y = combine(c, {t, t, t}, identity(c, {t, t, t}), x);
        EXPECT_TRUE(y[0].f == x[0].f && y[0].i == x[0].i) << to_string(c) << " " << fusec::to_string(t);
      }
    }
  }
  const TupleTypes flag = {DType::bool_, DType::bool_, DType::bool_};
  for (const Combiner c : {Combiner::and_, Combiner::or_}) {
    for (const int64_t v : {0, 1}) EXPECT_EQ(combine(c, flag, identity(c, flag), {Number{0, v}})[0].i, v);
  }
}

TEST(KernelCombine, Casts) {
  EXPECT_EQ(cast_number(DType::f32, DType::i8, {300.7, 0}).i, 127);
  EXPECT_EQ(cast_number(DType::f32, DType::i32, {kNan, 0}).i, 0);
  EXPECT_EQ(cast_number(DType::i32, DType::u8, {0, -1}).i, 255);
  EXPECT_EQ(cast_number(DType::u64, DType::f64, {0, -1}).f, 18446744073709551616.0);
  EXPECT_EQ(cast_number(DType::f64, DType::f16, {65519.9, 0}).f, 65504);
  EXPECT_EQ(cast_number(DType::i32, DType::bool_, {0, 12}).i, 1);
}

}  // namespace
}  // namespace fusec::ir

// SPDX-License-Identifier: Apache-2.0
// Reductions of long rows and columns as they are scheduled for GPUs of different sizes: equal bits whether
// one block takes a row or many share it, whatever the number of rows; and generated code with the results of the
// evaluator.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "compiler/lower/gpu/gpu.h"
#include "ir/ops/cast.h"
#include "tests/codegen/scheduled_rows.h"

namespace fusec::codegen_test {
namespace {

constexpr const char* kSum = R"(graph @main(%x: f32[$B, 18002]) {
  %0 = reduce_sum %x {axes = [1]}: f32[$B]
  return %0 as "y"
})";
constexpr const char* kArgmax = R"(graph @main(%x: f32[$B, 33000]) {
  %0 = argmax %x {axis = 1, last = 0}: i64[$B]
  return %0 as "y"
})";
constexpr const char* kSoftmax = R"(graph @main(%x: f32[$B, 33000]) {
  %0 = reduce_max %x {axes = [1]}: f32[$B]
  %1 = reshape %0 {shape = [$B, 1]}: f32[$B, 1]
  %2 = sub %x, %1: f32[$B, 33000]
  %3 = exp %2: f32[$B, 33000]
  %4 = reduce_sum %3 {axes = [1]}: f32[$B]
  %5 = reshape %4 {shape = [$B, 1]}: f32[$B, 1]
  %6 = div %3, %5: f32[$B, 33000]
  return %6 as "y"
})";
constexpr const char* kLogSumExp = R"(graph @main(%x: f16[$B, 36004]) {
  %0 = reduce_max %x {axes = [1]}: f16[$B]
  %1 = reshape %0 {shape = [$B, 1]}: f16[$B, 1]
  %2 = sub %x, %1: f16[$B, 36004]
  %3 = exp %2: f16[$B, 36004]
  %4 = reduce_sum %3 {axes = [1]}: f16[$B]
  %5 = log %4: f16[$B]
  %6 = add %5, %0: f16[$B]
  return %6 as "y"
})";
// Statistics of images whose channels are last in memory, while the result has them first.
constexpr const char* kGroupNorm = R"(graph @main(%x: f16[$B, 41, 40, 48], %w: f16[48, 1, 1]) {
  %t = transpose %x {perm = [0, 3, 1, 2]}: f16[$B, 48, 41, 40]
  %0 = reduce_mean %t {axes = [1, 2, 3]}: f16[$B]
  %1 = reshape %0 {shape = [$B, 1, 1, 1]}: f16[$B, 1, 1, 1]
  %2 = sub %t, %1: f16[$B, 48, 41, 40]
  %3 = mul %2, %2: f16[$B, 48, 41, 40]
  %4 = reduce_mean %3 {axes = [1, 2, 3]}: f16[$B]
  %5 = reshape %4 {shape = [$B, 1, 1, 1]}: f16[$B, 1, 1, 1]
  %6 = sqrt %5: f16[$B, 1, 1, 1]
  %7 = div %2, %6: f16[$B, 48, 41, 40]
  %8 = mul %7, %w: f16[$B, 48, 41, 40]
  return %8 as "y", %0 as "mean"
})";
// Two reductions of one pass.
constexpr const char* kMoments = R"(graph @main(%x: f32[$B, 18002]) {
  %0 = reduce_mean %x {axes = [1]}: f32[$B]
  %1 = mul %x, %x: f32[$B, 18002]
  %2 = reduce_mean %1 {axes = [1]}: f32[$B]
  %3 = mul %0, %0: f32[$B]
  %4 = sub %2, %3: f32[$B]
  return %0 as "mean", %4 as "variance"
})";
constexpr const char* kArgmaxOfHalves = R"(graph @main(%x: f16[$B, 70008]) {
  %0 = argmax %x {axis = 1, last = 1}: i64[$B]
  return %0 as "y"
})";
constexpr const char* kOddArgmaxOfHalves = R"(graph @main(%x: f16[$B, 30007]) {
  %0 = argmax %x {axis = 1, last = 0}: i64[$B]
  return %0 as "y"
})";
constexpr const char* kLongRows[] = {kSum,     kArgmax,    kArgmaxOfHalves, kOddArgmaxOfHalves,
                                     kSoftmax, kLogSumExp, kGroupNorm,      kMoments};

// Rows as long as a block can hold, and rows that take half of the largest cluster. Lengths do not divide evenly.
constexpr const char* kFullBlock = R"(graph @main(%x: f16[$B, 36, 40, 40], %w: f16[36, 1, 1]) {
  %0 = reduce_mean %x {axes = [1, 2, 3]}: f16[$B]
  %1 = reshape %0 {shape = [$B, 1, 1, 1]}: f16[$B, 1, 1, 1]
  %2 = sub %x, %1: f16[$B, 36, 40, 40]
  %3 = mul %2, %2: f16[$B, 36, 40, 40]
  %4 = reduce_mean %3 {axes = [1, 2, 3]}: f16[$B]
  %5 = reshape %4 {shape = [$B, 1, 1, 1]}: f16[$B, 1, 1, 1]
  %6 = sqrt %5: f16[$B, 1, 1, 1]
  %7 = div %2, %6: f16[$B, 36, 40, 40]
  %8 = mul %7, %w: f16[$B, 36, 40, 40]
  return %8 as "y"
})";
constexpr const char* kLongSoftmax = R"(graph @main(%x: f32[$B, 120004]) {
  %0 = reduce_max %x {axes = [1]}: f32[$B]
  %1 = reshape %0 {shape = [$B, 1]}: f32[$B, 1]
  %2 = sub %x, %1: f32[$B, 120004]
  %3 = exp %2: f32[$B, 120004]
  %4 = reduce_sum %3 {axes = [1]}: f32[$B]
  %5 = reshape %4 {shape = [$B, 1]}: f32[$B, 1]
  %6 = div %3, %5: f32[$B, 120004]
  return %6 as "y"
})";
// Phases that need no more than the sum of two loaded elements, which fits where the two would not.
constexpr const char* kLongResidual = R"(graph @main(%x: f32[$B, 66000], %r: f32[$B, 66000]) {
  %s = add %x, %r: f32[$B, 66000]
  %0 = reduce_mean %s {axes = [1]}: f32[$B]
  %1 = reshape %0 {shape = [$B, 1]}: f32[$B, 1]
  %2 = sub %s, %1: f32[$B, 66000]
  %3 = mul %2, %2: f32[$B, 66000]
  %4 = reduce_mean %3 {axes = [1]}: f32[$B]
  %5 = reshape %4 {shape = [$B, 1]}: f32[$B, 1]
  %6 = sqrt %5: f32[$B, 1]
  %7 = div %2, %6: f32[$B, 66000]
  return %7 as "y"
})";
// Halves that blocks of 256 threads do not hold.
constexpr const char* kLongHalves = R"(graph @main(%x: f16[$B, 131080]) {
  %a = cast %x {to = f32}: f32[$B, 131080]
  %0 = mul %a, %a: f32[$B, 131080]
  %1 = reduce_mean %0 {axes = [1]}: f32[$B]
  %2 = reshape %1 {shape = [$B, 1]}: f32[$B, 1]
  %3 = sqrt %2: f32[$B, 1]
  %4 = div %a, %3: f32[$B, 131080]
  %5 = cast %4 {to = f16}: f16[$B, 131080]
  return %5 as "y"
})";
constexpr const char* kClusterRows[] = {kSoftmax, kFullBlock, kLongSoftmax, kLongResidual, kLongHalves};

TEST(LongRows, ClustersHoldRowsThatAreReadMoreThanOnce) {
  for (const char* text : kClusterRows) {
    const std::string kernel = print(schedule(text, 40, kManySmsOfClusters).kernel);
    EXPECT_NE(kernel.find(" cluster "), std::string::npos) << kernel;
    EXPECT_EQ(kernel.find("scratch"), std::string::npos) << kernel;
    // The row is loaded in one place.
    EXPECT_EQ(kernel.find("load b0["), kernel.rfind("load b0[")) << kernel;
  }
  EXPECT_EQ(print(schedule(kSum, 40, kManySmsOfClusters).kernel).find(" cluster "), std::string::npos);
  EXPECT_EQ(print(schedule(kSoftmax, 1, kManySmsOfClusters).kernel).find(" cluster "), std::string::npos);
}

TEST(LongRows, ClustersHaveTheBitsOfOtherSchedules) {
  for (const char* text : sampled(kClusterRows)) {
    SCOPED_TRACE(text);
    const Scheduled whole = schedule(text, 1, kOneSm);
    std::vector<Tensor> want = make_args(whole.kernel, whole.extents, 7, -2, 2),
                        got = make_args(whole.kernel, whole.extents, 7, -2, 2);
    run_rows(text, 0, 1, 1, kOneSm, want);
    run_rows(text, 0, 1, 1, kOneSmOfClusters, got);
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_EQ(std::memcmp(got[i].data(), want[i].data(), want[i].bytes()), 0) << "argument " << i;
  }
}

TEST(LongRows, GeneratedCodeOfClustersComputesWhatTheEvaluatorDoes) {
  FUSEC_NEEDS_COMPILER_OR_GPU();
  std::vector<EmulationCase> cases;
  for (const char* text : kClusterRows) {
    const Scheduled s = schedule(text, 1, kOneSmOfClusters);
    cases.push_back({print(s.kernel), {s.extents}, expectation(s.kernel)});
  }
  expect_cuda_like_evaluator(cases);
}

TEST(LongRows, EverySchedulesBitsAreEqual) {
  for (const char* text : sampled(kLongRows)) expect_equal_bits(text);
}

// Rows that no cluster holds: two reductions in one pass. Lengths do not divide evenly.
constexpr const char* kSoftmaxBeyondClusters = R"(graph @main(%x: f32[$B, 262540]) {
  %0 = reduce_max %x {axes = [1]}: f32[$B]
  %1 = reshape %0 {shape = [$B, 1]}: f32[$B, 1]
  %2 = sub %x, %1: f32[$B, 262540]
  %3 = exp %2: f32[$B, 262540]
  %4 = reduce_sum %3 {axes = [1]}: f32[$B]
  %5 = reshape %4 {shape = [$B, 1]}: f32[$B, 1]
  %6 = div %3, %5: f32[$B, 262540]
  return %6 as "y"
})";
constexpr const char* kLogSumBeyondClusters = R"(graph @main(%x: f16[$B, 262147]) {
  %c = cast %x {to = f32}: f32[$B, 262147]
  %0 = reduce_max %c {axes = [1]}: f32[$B]
  %1 = reshape %0 {shape = [$B, 1]}: f32[$B, 1]
  %2 = sub %c, %1: f32[$B, 262147]
  %3 = exp %2: f32[$B, 262147]
  %4 = reduce_sum %3 {axes = [1]}: f32[$B]
  %5 = log %4: f32[$B]
  %6 = add %5, %0: f32[$B]
  return %6 as "y"
})";
// The mean is a result, too, and the sum has another reader.
constexpr const char* kNormBeyondClusters = R"(graph @main(%x: f16[$B, 266240], %r: f16[$B, 266240]) {
  %a = cast %x {to = f32}: f32[$B, 266240]
  %b = cast %r {to = f32}: f32[$B, 266240]
  %t = add %a, %b: f32[$B, 266240]
  %s = reduce_sum %t {axes = [1]}: f32[$B]
  %n = constant f32[] {266240}
  %0 = div %s, %n: f32[$B]
  %1 = reshape %0 {shape = [$B, 1]}: f32[$B, 1]
  %2 = sub %t, %1: f32[$B, 266240]
  %3 = mul %2, %2: f32[$B, 266240]
  %4 = reduce_mean %3 {axes = [1]}: f32[$B]
  %5 = reshape %4 {shape = [$B, 1]}: f32[$B, 1]
  %6 = sqrt %5: f32[$B, 1]
  %7 = div %2, %6: f32[$B, 266240]
  return %7 as "y", %0 as "mean", %s as "sum"
})";
constexpr const char* kBeyondClusters[] = {kSoftmaxBeyondClusters, kLogSumBeyondClusters, kNormBeyondClusters};

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(LongRows, BeyondClustersTwoReductionsAreOnePass) {
  const char* const combiners[] = {"reduce.max_sum", "reduce.max_sum", "reduce.welford"};
  const int loads[] = {2, 1, 2};  // of the row
  for (size_t i = 0; i < 3; ++i) {
    for (const int64_t rows : {1, 500}) {
      const std::string kernel = print(schedule(kBeyondClusters[i], rows, kManySmsOfClusters).kernel);
      EXPECT_EQ(count_of(kernel, combiners[i]), 2) << kernel;  // of slices, and of what they give
      EXPECT_EQ(count_of(kernel, "load b0["), loads[i]) << kernel;
    }
  }
  EXPECT_EQ(print(schedule(kSoftmax, 1, kManySms).kernel).find("max_sum"), std::string::npos);
}

TEST(LongRows, BeyondClustersBitsAreEqual) {
  for (const char* text : sampled(kBeyondClusters)) expect_equal_bits(text, 2, {kSomeSms, kManySmsOfClusters});
}

TEST(LongRows, GeneratedCodeBeyondClustersComputesWhatTheEvaluatorDoes) {
  FUSEC_NEEDS_COMPILER_OR_GPU();
  std::vector<EmulationCase> cases;
  for (const char* text : kBeyondClusters) {
    const Scheduled s = schedule(text, 1, kManySms);
    cases.push_back({print(s.kernel), {s.extents}, expectation(s.kernel)});
  }
  expect_cuda_like_evaluator(cases);
}

// Of groups of channels, with weights. f16 is read and f32 written.
constexpr const char* kGroupNormBeyondClusters = R"(graph @main(%x: f16[$B, 4, 128, 523], %w: f32[4, 1, 1]) {
  %a = cast %x {to = f32}: f32[$B, 4, 128, 523]
  %0 = reduce_mean %a {axes = [1, 2, 3]}: f32[$B]
  %1 = reshape %0 {shape = [$B, 1, 1, 1]}: f32[$B, 1, 1, 1]
  %2 = sub %a, %1: f32[$B, 4, 128, 523]
  %3 = mul %2, %2: f32[$B, 4, 128, 523]
  %4 = reduce_mean %3 {axes = [1, 2, 3]}: f32[$B]
  %5 = reshape %4 {shape = [$B, 1, 1, 1]}: f32[$B, 1, 1, 1]
  %6 = sqrt %5: f32[$B, 1, 1, 1]
  %7 = div %2, %6: f32[$B, 4, 128, 523]
  %8 = mul %7, %w: f32[$B, 4, 128, 523]
  return %8 as "y"
})";

// Accesses are of 8 bytes.
constexpr const char* kRmsNormBeyondClusters = R"(graph @main(%x: f32[$B, 270002]) {
  %0 = mul %x, %x: f32[$B, 270002]
  %1 = reduce_mean %0 {axes = [1]}: f32[$B]
  %2 = sqrt %1: f32[$B]
  %3 = reshape %2 {shape = [$B, 1]}: f32[$B, 1]
  %4 = div %x, %3: f32[$B, 270002]
  return %4 as "y"
})";

// L2 holds two rows, and there are three.
constexpr GpuSize kSmallCache{132, false, 2400 << 10}, kSmallerCache{132, false, 1200 << 10};
struct InOrder {
  const char* text;
  GpuSize gpu;
};
constexpr InOrder kInOrder[] = {{kSoftmaxBeyondClusters, kSmallCache},
                                {kGroupNormBeyondClusters, kSmallerCache},
                                {kRmsNormBeyondClusters, kSmallCache}};

TEST(LongRows, PassesInOneLaunchHaveTheBitsOfTwoLaunches) {
  for (const InOrder& c : sampled(kInOrder)) {
    SCOPED_TRACE(c.text);
    const Scheduled two = schedule(c.text, 3, kManySms), one = schedule(c.text, 3, c.gpu);
    EXPECT_EQ(count_of(print(two.kernel), " tasks("), 0) << print(two.kernel);
    EXPECT_EQ(count_of(print(one.kernel), " tasks("), 1) << print(one.kernel);
    const auto lowered = compiler::lower_to_threads(one.kernel);
    ASSERT_TRUE(lowered.ok()) << lowered.status().str();
    EXPECT_TRUE(ir::verify(*lowered).ok()) << ir::verify(*lowered).str();
    const std::vector<Tensor> want = make_args(two.kernel, two.extents, 7, -2, 2),
                              got = make_args(one.kernel, one.extents, 7, -2, 2),
                              in_lockstep = make_args(one.kernel, one.extents, 7, -2, 2);
    ASSERT_TRUE(ir::evaluate(two.kernel, want, two.extents).ok());
    const auto run = ir::evaluate(one.kernel, got, one.extents), low = ir::evaluate(*lowered, in_lockstep, one.extents);
    ASSERT_TRUE(run.ok()) << run.status().str();
    ASSERT_TRUE(low.ok()) << low.status().str();
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(std::memcmp(got[i].data(), want[i].data(), want[i].bytes()), 0) << "argument " << i;
      EXPECT_EQ(std::memcmp(in_lockstep[i].data(), want[i].data(), want[i].bytes()), 0) << "argument " << i;
    }
  }
}

TEST(LongRows, GeneratedCodeOfPassesInOneLaunchComputesWhatTheEvaluatorDoes) {
  FUSEC_NEEDS_COMPILER_OR_GPU();
  std::vector<EmulationCase> cases;
  for (const InOrder& c : kInOrder) {
    const Scheduled s = schedule(c.text, 3, c.gpu);
    cases.push_back({print(s.kernel), {s.extents}, expectation(s.kernel)});
  }
  expect_cuda_like_evaluator(cases);
}

// Where the best value of 70,000 halves is found that are `all` but for `others`: by argmax of the first and of the
// last place, then by argmin.
using Places = std::array<int64_t, 4>;
Places find_places(float all, const std::vector<std::pair<int64_t, float>>& others) {
  Places places{};
  for (size_t i = 0; i < places.size(); ++i) {
    const Scheduled s = schedule(filled(R"(graph @main(%x: f16[$B, 70000]) {
  %0 = $OP %x {axis = 1, last = $LAST}: i64[$B]
  return %0 as "y"
})",
                                        {{"$OP", i < 2 ? "argmax" : "argmin"}, {"$LAST", i % 2 == 0 ? "0" : "1"}}),
                                 1, kManySms);
    std::vector<Tensor> args = make_args(s.kernel, s.extents, 7, -2, 2);
    const auto put = [&](int64_t at, float value) { ir::store_double(DType::f16, args[0].as<char>() + 2 * at, value); };
    for (int64_t at = 0; at < 70000; ++at) put(at, all);
    for (const auto& [at, value] : others) put(at, value);
    EXPECT_TRUE(ir::evaluate(s.kernel, args, s.extents).ok());
    places[i] = args[1].as<int64_t>()[0];
  }
  return places;
}

TEST(LongRows, AnArgmaxFindsTheFirstOrLastOfEqualValues) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(find_places(0, {{700, 3.F}, {31111, 3.F}, {12, -2.F}, {69999, -2.F}}), (Places{700, 31111, 12, 69999}));
  EXPECT_EQ(find_places(-kInf, {}), (Places{0, 69999, 0, 69999}));
  EXPECT_EQ(find_places(1, {{9000, kNan}, {20000, kInf}, {29000, kNan}}), (Places{9000, 29000, 9000, 29000}));
  EXPECT_EQ(find_places(5, {{17, kInf}, {18, -kInf}}), (Places{17, 17, 18, 18}));
}

// The results of a kernel for one row.
std::vector<double> run_row(const char* text, const std::vector<float>& row) {
  const Scheduled s = schedule(text, 1, kManySmsOfClusters);
  std::vector<Tensor> args = make_args(s.kernel, s.extents, 7, -2, 2);
  std::memcpy(args[0].data(), row.data(), args[0].bytes());
  EXPECT_TRUE(ir::evaluate(s.kernel, args, s.extents).ok());
  const auto* y = args.back().as<float>();
  return {y, y + args.back().num_elements()};
}

TEST(LongRows, ASoftmaxBeyondClustersTakesInfinitiesAsASmallOneDoes) {
  constexpr size_t kLength = 262540, kMasked = 200000;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> row(kLength);
  for (size_t i = 0; i < kLength; ++i) row[i] = i < kMasked ? -kInf : static_cast<float>(i % 97) * 0.25F - 90.0F;
  double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<double>(x) + 66.0);
  const std::vector<double> y = run_row(kSoftmaxBeyondClusters, row);
  for (size_t i = 0; i < kLength; ++i)
    ASSERT_NEAR(y[i], std::exp(static_cast<double>(row[i]) + 66.0) / sum, 2e-6 / sum) << "element " << i;
  for (const float x : {kInf, std::numeric_limits<float>::quiet_NaN()}) {
    row[kMasked + 1] = x;
    for (const double v : run_row(kSoftmaxBeyondClusters, row)) ASSERT_TRUE(std::isnan(v));
  }
  const std::vector<float> masked(kLength, -kInf);
  for (const double v : run_row(kSoftmaxBeyondClusters, masked)) ASSERT_TRUE(std::isnan(v));
}

TEST(LongRows, AVarianceBeyondClustersIsThatOfTheRow) {
  constexpr const char* kVariance = R"(graph @main(%x: f32[$B, 262541]) {
  %0 = reduce_mean %x {axes = [1]}: f32[$B]
  %1 = reshape %0 {shape = [$B, 1]}: f32[$B, 1]
  %2 = sub %x, %1: f32[$B, 262541]
  %3 = mul %2, %2: f32[$B, 262541]
  %4 = reduce_mean %3 {axes = [1]}: f32[$B]
  return %4 as "y"
})";
  std::vector<float> row(262541);
  double mean = 0, variance = 0;
  for (size_t i = 0; i < row.size(); ++i) row[i] = 1000.0F + static_cast<float>(i % 89) * 0.125F;
  for (const float x : row) mean += x / static_cast<double>(row.size());
  for (const float x : row) variance += (x - mean) * (x - mean) / static_cast<double>(row.size());
  const std::vector<double> y = run_row(kVariance, row);
  ASSERT_EQ(y.size(), 1U);
  EXPECT_NEAR(y[0], variance, 1e-5 * variance);
}

// A normalization down columns: x / sqrt(sum of squares).
constexpr const char* kColumnNorm = R"(graph @main(%x: f32[$B, 300, 24]) {
  %0 = mul %x, %x: f32[$B, 300, 24]
  %1 = reduce_sum %0 {axes = [1]}: f32[$B, 24]
  %2 = reshape %1 {shape = [$B, 1, 24]}: f32[$B, 1, 24]
  %3 = sqrt %2: f32[$B, 1, 24]
  %4 = div %x, %3: f32[$B, 300, 24]
  return %4 as "y"
})";

TEST(LongRows, GeneratedCodeComputesWhatTheEvaluatorDoes) {
  FUSEC_NEEDS_COMPILER_OR_GPU();
  std::vector<EmulationCase> cases;
  const auto add = [&](const char* text, const GpuSize& gpu) {
    const Scheduled s = schedule(text, 2, gpu);
    cases.push_back({print(s.kernel), {s.extents}, expectation(s.kernel)});
  };
  for (const char* text : kLongRows) {
    add(text, kOneSm);
    add(text, kManySms);
  }
  add(kColumnNorm, kManySms);
  expect_cuda_like_evaluator(cases);
}

}  // namespace
}  // namespace fusec::codegen_test

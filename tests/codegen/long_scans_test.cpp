// SPDX-License-Identifier: Apache-2.0
// Scans of rows and columns as they are scheduled for GPUs of different sizes: equal bits whether one block takes a row
// or many share it, whatever the number of rows; and generated code with the results of the evaluator.
#include <gtest/gtest.h>

#include "tests/codegen/scheduled_rows.h"

namespace fusec::codegen_test {
namespace {

// Sums along rows of two parts and more, and down columns.
constexpr const char* kLongScan = R"(graph @main(%x: f32[$B, 5001]) {
  %0 = exp %x: f32[$B, 5001]
  %1 = cumsum %0 {axis = 1, exclusive = 0, reverse = 0}: f32[$B, 5001]
  %2 = sub %1, %0: f32[$B, 5001]
  return %2 as "y"
})";
constexpr const char* kReverseScan = R"(graph @main(%x: f16[$B, 20000]) {
  %0 = cumsum %x {axis = 1, exclusive = 1, reverse = 1}: f16[$B, 20000]
  return %0 as "y"
})";
constexpr const char* kColumnScan = R"(graph @main(%x: f32[$B, 70, 1500]) {
  %0 = cumsum %x {axis = 1, exclusive = 0, reverse = 0}: f32[$B, 70, 1500]
  return %0 as "y"
})";
constexpr const char* kReverseColumnScan = R"(graph @main(%x: f16[$B, 128, 1500]) {
  %0 = cumsum %x {axis = 1, exclusive = 1, reverse = 1}: f16[$B, 128, 1500]
  return %0 as "y"
})";
// Few columns, and columns that lanes do not divide.
constexpr const char* kNarrowColumnScan = R"(graph @main(%x: i32[$B, 70, 24]) {
  %0 = cumsum %x {axis = 1, exclusive = 0, reverse = 1}: i32[$B, 70, 24]
  return %0 as "y"
})";
constexpr const char* kOddColumnScan = R"(graph @main(%x: f32[$B, 130, 37]) {
  %0 = cumsum %x {axis = 1, exclusive = 1, reverse = 0}: f32[$B, 130, 37]
  return %0 as "y"
})";
constexpr const char* kLongScans[] = {kLongScan, kReverseScan, kColumnScan, kReverseColumnScan};

TEST(LongScans, EverySchedulesBitsAreEqual) {
  for (const char* text : sampled(kLongScans)) expect_equal_bits(text);
}

// Of a part of a warp, of one, of several accesses and of several warps; what lanes divide and what they do not.
constexpr const char* kScan = R"(graph @main(%x: $T[$B, $N]) {
  %0 = cumsum %x {axis = 1, exclusive = $E, reverse = $R}: $T[$B, $N]
  return %0 as "y"
})";

// The sum of each element with those before it, or behind it, in f64: a scheduled scan differs from it by roundings.
void expect_sums(const Scheduled& s, int64_t length, bool exclusive, bool reverse) {
  std::vector<Tensor> args = make_args(s.kernel, s.extents, 3, -2, 2);
  ASSERT_TRUE(ir::evaluate(s.kernel, args, s.extents).ok());
  const int64_t elements = args[0].num_elements();
  double sum = 0;
  for (int64_t i = 0; i < elements; ++i) {
    const int64_t step = i % length, at = i - step + (reverse ? length - 1 - step : step);
    const double before = step == 0 ? 0 : sum;
    sum = before + args[0].as<float>()[at];
    ASSERT_NEAR(args[1].as<float>()[at], exclusive ? before : sum, 1e-3) << "element " << at;
  }
}

TEST(Scans, OfRowsOfAllLengths) {
  for (const int64_t length : {1, 2, 7, 32, 60, 128, 129, 512, 1001, 2052}) {
    for (const auto& [exclusive, reverse] : {std::pair("0", "0"), std::pair("1", "0"), std::pair("1", "1")}) {
      SCOPED_TRACE("length " + std::to_string(length) + ", exclusive " + exclusive + ", reverse " + reverse);
      const std::string text =
          filled(kScan, {{"$N", std::to_string(length)}, {"$E", exclusive}, {"$R", reverse}, {"$T", "f32"}});
      expect_sums(schedule(text, 5, kManySms), length, exclusive[0] == '1', reverse[0] == '1');
    }
  }
}

// A row so long that its parts have two tiles each.
TEST(Scans, PartsOfSeveralTiles) {
  const std::string text = filled(kScan, {{"$N", "264193"}, {"$E", "0"}, {"$R", "0"}, {"$T", "f32"}});
  for (const GpuSize& gpu : sampled(std::vector{kOneSm, kManySms}))
    expect_sums(schedule(text, 1, gpu), 264193, false, false);
}

TEST(Scans, GeneratedCodeComputesWhatTheEvaluatorDoes) {
  FUSEC_NEEDS_COMPILER_OR_GPU();
  std::vector<EmulationCase> cases;
  const auto add = [&](const std::string& text, int64_t rows, const GpuSize& gpu) {
    const Scheduled s = schedule(text, rows, gpu);
    cases.push_back({print(s.kernel), {s.extents}, expectation(s.kernel)});
  };
  for (const char* text : kLongScans) {
    add(text, 2, kOneSm);
    add(text, 2, kManySms);
  }
  for (const char* text : {kNarrowColumnScan, kOddColumnScan}) {
    add(text, 3, kManySms);
    add(text, 600, kOneSm);
  }
  for (const char* dtype : {"f32", "f16", "i32", "i64"}) {
    add(filled(kScan, {{"$N", "60"}, {"$E", "0"}, {"$R", "1"}, {"$T", dtype}}), 11, kManySms);
    add(filled(kScan, {{"$N", "1001"}, {"$E", "1"}, {"$R", "0"}, {"$T", dtype}}), 3, kManySms);
  }
  expect_cuda_like_evaluator(cases);
}

}  // namespace
}  // namespace fusec::codegen_test

// SPDX-License-Identifier: Apache-2.0
// Reductions and scans of long rows and columns as they are scheduled for GPUs of different sizes: equal bits whether
// one block takes a row or many share it, whatever the number of rows; and generated code with the results of the
// evaluator.
#include <gtest/gtest.h>

#include <cstring>

#include "compiler/lower/lower.h"
#include "compiler/partition/partition.h"
#include "ir/eval/kernel.h"
#include "ir/text/graph_text.h"
#include "ir/text/kernel_text.h"
#include "ir/verify/kernel.h"
#include "tests/codegen/cuda_emulation_run.h"

namespace fusec::codegen_test {
namespace {

struct Scheduled {
  ir::Kernel kernel;
  Extents extents;
};

// A GPU with so many multiprocessors, with or without clusters of thread blocks.
struct GpuSize {
  int sms = 1;
  bool clusters = false;
};

// The only kernel of a graph. `$B` of the text is the number of rows.
Scheduled schedule(const std::string& text, int64_t rows, const GpuSize& gpu) {
  const auto graph = ir::parse_graph(filled(text, {{"$B", std::to_string(rows)}}));
  EXPECT_TRUE(graph.ok()) << graph.status().str();
  Target target = *named_target(gpu.clusters ? "sm_90" : "sm_89");
  target.sm_count = gpu.sms;
  const auto parts = compiler::partition(*graph, target, {});
  EXPECT_TRUE(parts.ok()) << parts.status().str();
  const auto program = compiler::lower(*graph, *parts, target, {}, {}, {.most = 1});
  EXPECT_TRUE(program.ok()) << program.status().str();
  EXPECT_EQ(program->kernels.size(), 1U);
  Scheduled s{program->kernels[ir::KernelId{0}], {}};
  EXPECT_TRUE(ir::verify(s.kernel).ok()) << ir::verify(s.kernel).str();
  const auto& step = std::get<ir::KernelStep>(program->slots[0].variants[0].candidates[0].steps[0].v);
  for (size_t i = 0; i < step.extents.size(); ++i)
    s.extents[s.kernel.extents[ir::ExtentId{static_cast<uint32_t>(i)}]] = step.extents[i].value();
  return s;
}

bool is_input(const ir::Kernel& kernel, size_t param) {
  return kernel.buffers[kernel.params[param]].space == ir::Space::in;
}

// Runs the kernel on rows `first` ... of arguments for `rows` rows, which it fills. An argument of another size, such
// as a weight, is passed whole.
void run_rows(const std::string& text, int64_t first, int64_t count, int64_t rows, const GpuSize& gpu,
              std::vector<Tensor>& all) {
  const Scheduled s = schedule(text, count, gpu);
  std::vector<Tensor> args = make_args(s.kernel, s.extents, 7, -2, 2);
  ASSERT_EQ(args.size(), all.size());
  const auto part = [&](size_t i) {
    const bool is_row = args[i].bytes() * static_cast<size_t>(rows) == all[i].bytes() * static_cast<size_t>(count);
    return all[i].as<char>() + (is_row ? args[i].bytes() / static_cast<size_t>(count) * static_cast<size_t>(first) : 0);
  };
  for (size_t i = 0; i < args.size(); ++i)
    if (is_input(s.kernel, i)) std::memcpy(args[i].data(), part(i), args[i].bytes());
  const auto result = ir::evaluate(s.kernel, args, s.extents);
  ASSERT_TRUE(result.ok()) << result.status().str();
  for (size_t i = 0; i < args.size(); ++i)
    if (!is_input(s.kernel, i)) std::memcpy(part(i), args[i].data(), args[i].bytes());
}

// An exponential may be off by 4 ulp on a GPU, and a softmax divides one by a sum of others.
Expectation expectation(const ir::Kernel& kernel) {
  const bool has_exp = ir::print(kernel).find(" = exp ") != std::string::npos;
  return {has_exp ? 8.0 : 2.0, -2, 2, 1};
}

constexpr GpuSize kOneSm{1, false};           // every row has a block of its own
constexpr GpuSize kManySms{132, false};       // rows are cut into slices
constexpr GpuSize kSomeSms{20, false};        // into fewer
constexpr GpuSize kOneSmOfClusters{1, true};  // the blocks of a cluster hold a row, if it is read more than once
constexpr GpuSize kManySmsOfClusters{132, true};

constexpr const char* kSum = R"(graph @main(%x: f32[$B, 9001]) {
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
constexpr const char* kLogSumExp = R"(graph @main(%x: f16[$B, 9001]) {
  %0 = reduce_max %x {axes = [1]}: f16[$B]
  %1 = reshape %0 {shape = [$B, 1]}: f16[$B, 1]
  %2 = sub %x, %1: f16[$B, 9001]
  %3 = exp %2: f16[$B, 9001]
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
constexpr const char* kMoments = R"(graph @main(%x: f32[$B, 9001]) {
  %0 = reduce_mean %x {axes = [1]}: f32[$B]
  %1 = mul %x, %x: f32[$B, 9001]
  %2 = reduce_mean %1 {axes = [1]}: f32[$B]
  %3 = mul %0, %0: f32[$B]
  %4 = sub %2, %3: f32[$B]
  return %0 as "mean", %4 as "variance"
})";
constexpr const char* kLongRows[] = {kSum, kArgmax, kSoftmax, kLogSumExp, kGroupNorm, kMoments};

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
constexpr const char* kClusterRows[] = {kSoftmax, kFullBlock, kLongSoftmax};

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
  for (const char* text : kClusterRows) {
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

// Runs three rows at once and one by one, on GPUs of all sizes.
void expect_equal_bits(const char* text) {
  SCOPED_TRACE(text);
  const Scheduled whole = schedule(text, 3, kOneSm);
  EXPECT_EQ(print(whole.kernel).find("scratch"), std::string::npos);
  EXPECT_NE(print(schedule(text, 3, kManySms).kernel).find("scratch"), std::string::npos);
  std::vector<Tensor> want = make_args(whole.kernel, whole.extents, 7, -2, 2);
  run_rows(text, 0, 3, 3, kOneSm, want);
  for (const GpuSize& gpu : {kSomeSms, kManySms, kOneSmOfClusters, kManySmsOfClusters}) {
    for (const int64_t count : {1, 3}) {
      std::vector<Tensor> got = make_args(whole.kernel, whole.extents, 7, -2, 2);
      for (int64_t first = 0; first < 3; first += count) run_rows(text, first, count, 3, gpu, got);
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_EQ(std::memcmp(got[i].data(), want[i].data(), want[i].bytes()), 0)
            << "argument " << i << ", " << gpu.sms << " multiprocessors, clusters " << gpu.clusters << ", rows by "
            << count;
    }
  }
}

TEST(LongRows, EverySchedulesBitsAreEqual) {
  for (const char* text : kLongRows) expect_equal_bits(text);
}

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
  for (const char* text : kLongScans) expect_equal_bits(text);
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
  for (const GpuSize& gpu : {kOneSm, kManySms}) expect_sums(schedule(text, 1, gpu), 264193, false, false);
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

// Rows that no 16-byte access divides: of a mean, of a softmax, and of a norm with weights.
constexpr const char* kOddMean = R"(graph @main(%x: f16[$B, 7, 7]) {
  %0 = reduce_mean %x {axes = [1, 2]}: f16[$B]
  return %0 as "y"
})";
constexpr const char* kOddSoftmax = R"(graph @main(%x: f16[$B, 77]) {
  %0 = reduce_max %x {axes = [1]}: f16[$B]
  %1 = reshape %0 {shape = [$B, 1]}: f16[$B, 1]
  %2 = sub %x, %1: f16[$B, 77]
  %3 = exp %2: f16[$B, 77]
  %4 = reduce_sum %3 {axes = [1]}: f16[$B]
  %5 = reshape %4 {shape = [$B, 1]}: f16[$B, 1]
  %6 = div %3, %5: f16[$B, 77]
  return %6 as "y"
})";
constexpr const char* kOddNorm = R"(graph @main(%x: f32[$B, 201], %w: f32[201]) {
  %0 = mul %x, %x: f32[$B, 201]
  %1 = reduce_mean %0 {axes = [1]}: f32[$B]
  %2 = reshape %1 {shape = [$B, 1]}: f32[$B, 1]
  %3 = sqrt %2: f32[$B, 1]
  %4 = div %x, %3: f32[$B, 201]
  %5 = mul %4, %w: f32[$B, 201]
  return %5 as "y"
})";

TEST(OddRows, GeneratedCodeComputesWhatTheEvaluatorDoes) {
  FUSEC_NEEDS_COMPILER_OR_GPU();
  std::vector<EmulationCase> cases;
  for (const char* text : {kOddMean, kOddSoftmax, kOddNorm}) {
    for (const int64_t rows : {1, 40, 67}) {
      const Scheduled s = schedule(text, rows, kManySms);
      cases.push_back({print(s.kernel), {s.extents}, expectation(s.kernel)});
    }
  }
  expect_cuda_like_evaluator(cases);
}

}  // namespace
}  // namespace fusec::codegen_test

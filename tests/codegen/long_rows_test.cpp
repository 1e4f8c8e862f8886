// SPDX-License-Identifier: Apache-2.0
// Reductions and scans of long rows and columns as they are scheduled for GPUs of different sizes: equal bits whether
// one block takes a row or many share it, whatever the number of rows; and generated code with the results of the
// evaluator.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/lower/gpu/gpu.h"
#include "compiler/lower/lower.h"
#include "compiler/partition/partition.h"
#include "ir/eval/graph.h"
#include "ir/eval/kernel.h"
#include "ir/ops/cast.h"
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
constexpr const char* kArgmaxOfHalves = R"(graph @main(%x: f16[$B, 70008]) {
  %0 = argmax %x {axis = 1, last = 1}: i64[$B]
  return %0 as "y"
})";
constexpr const char* kLongRows[] = {kSum, kArgmax, kArgmaxOfHalves, kSoftmax, kLogSumExp, kGroupNorm, kMoments};

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

// On GPUs of several sizes, by single rows and all at once.
void expect_equal_bits(const std::string& text, int64_t rows, const std::vector<GpuSize>& gpus) {
  SCOPED_TRACE(text);
  const Scheduled whole = schedule(text, rows, kOneSm);
  std::vector<Tensor> want = make_args(whole.kernel, whole.extents, 7, -2, 2);
  run_rows(text, 0, rows, rows, kOneSm, want);
  for (const GpuSize& gpu : gpus) {
    for (const int64_t count : {int64_t{1}, rows}) {
      std::vector<Tensor> got = make_args(whole.kernel, whole.extents, 7, -2, 2);
      for (int64_t first = 0; first < rows; first += count) run_rows(text, first, count, rows, gpu, got);
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_EQ(std::memcmp(got[i].data(), want[i].data(), want[i].bytes()), 0)
            << "argument " << i << ", " << gpu.sms << " multiprocessors, clusters " << gpu.clusters << ", rows by "
            << count;
    }
  }
}

// The same of three rows, which one block takes on a small GPU and several share on a large one.
void expect_equal_bits(const char* text) {
  EXPECT_EQ(print(schedule(text, 3, kOneSm).kernel).find("scratch"), std::string::npos);
  EXPECT_NE(print(schedule(text, 3, kManySms).kernel).find("scratch"), std::string::npos);
  expect_equal_bits(text, 3, {kSomeSms, kManySms, kOneSmOfClusters, kManySmsOfClusters});
}

TEST(LongRows, EverySchedulesBitsAreEqual) {
  for (const char* text : kLongRows) expect_equal_bits(text);
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
  for (const char* text : kBeyondClusters) expect_equal_bits(text, 2, {kSomeSms, kManySmsOfClusters});
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
    for (const int64_t rows : {1, 40, 67, 601}) {
      const Scheduled s = schedule(text, rows, kManySms);
      cases.push_back({print(s.kernel), {s.extents}, expectation(s.kernel)});
    }
  }
  expect_cuda_like_evaluator(cases);
}

// Rows of any length: `$L` of the text.
constexpr const char* kAnySoftmax = R"(graph @main(%x: f16[$B, $L]) {
  %c = cast %x {to = f32}: f32[$B, $L]
  %0 = reduce_max %c {axes = [1]}: f32[$B]
  %1 = reshape %0 {shape = [$B, 1]}: f32[$B, 1]
  %2 = sub %c, %1: f32[$B, $L]
  %3 = exp %2: f32[$B, $L]
  %4 = reduce_sum %3 {axes = [1]}: f32[$B]
  %5 = reshape %4 {shape = [$B, 1]}: f32[$B, 1]
  %6 = div %3, %5: f32[$B, $L]
  %7 = cast %6 {to = f16}: f16[$B, $L]
  return %7 as "y"
})";
constexpr const char* kAnyNorm = R"(graph @main(%x: f32[$B, $L], %w: f32[$L]) {
  %0 = mul %x, %x: f32[$B, $L]
  %1 = reduce_mean %0 {axes = [1]}: f32[$B]
  %2 = reshape %1 {shape = [$B, 1]}: f32[$B, 1]
  %3 = sqrt %2: f32[$B, 1]
  %4 = div %x, %3: f32[$B, $L]
  %5 = mul %4, %w: f32[$B, $L]
  return %5 as "y"
})";
constexpr const char* kAnyArgmax = R"(graph @main(%x: i8[$B, $L]) {
  %0 = argmax %x {axis = 1, last = 0}: i64[$B]
  return %0 as "y"
})";

std::vector<Tensor> evaluate_graph(const std::string& text, const std::vector<Tensor>& args) {
  const auto graph = ir::parse_graph(text);
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < graph->inputs.size(); ++i) {
    std::vector<int64_t> shape;
    for (const Dim& d : graph->type(graph->inputs[i]).shape) shape.push_back(d.value());
    inputs.push_back(Tensor::borrow(args[i].dtype(), shape, const_cast<char*>(args[i].as<char>())));
  }
  auto results = ir::evaluate(*graph, inputs);
  EXPECT_TRUE(results.ok()) << results.status().str();
  return results.ok() ? *std::move(results) : std::vector<Tensor>();
}

// As it is scheduled and lowered, the kernel has the same bits, which are near those of the graph.
void expect_like_graph(const std::string& text, int64_t rows) {
  const Scheduled s = schedule(text, rows, kOneSmOfClusters);
  std::vector<Tensor> args = make_args(s.kernel, s.extents, 7, -2, 2), again = make_args(s.kernel, s.extents, 7, -2, 2);
  const auto done = ir::evaluate(s.kernel, args, s.extents);
  ASSERT_TRUE(done.ok()) << done.status().str() << print(s.kernel);
  const auto lowered = compiler::lower_to_threads(s.kernel);
  ASSERT_TRUE(lowered.ok()) << lowered.status().str();
  ASSERT_TRUE(ir::evaluate(*lowered, again, s.extents).ok());
  EXPECT_EQ(std::memcmp(args.back().data(), again.back().data(), args.back().bytes()), 0) << print(s.kernel);
  const std::vector<Tensor> want = evaluate_graph(filled(text, {{"$B", std::to_string(rows)}}), args);
  std::vector<Tensor> got;
  got.push_back(Tensor::borrow(want[0].dtype(), {want[0].shape().begin(), want[0].shape().end()}, args.back().data()));
  expect_close(got, want, {8.0}, "the kernel", print(s.kernel));
}

TEST(OddRows, EveryLengthHasTheResultsOfTheGraph) {
  for (int64_t length = 1; length <= 300 && !HasFailure(); length += length < 40 ? 1 : 11) {
    for (const char* text : {kAnySoftmax, kAnyNorm, kAnyArgmax}) {
      // Part of one block, or several blocks and part of one.
      const int64_t rows = length % 19 == 9 ? 531 : 5;
      expect_like_graph(filled(text, {{"$L", std::to_string(length)}}), rows);
    }
  }
}

TEST(OddRows, BlocksLoadAndStoreWholeVectors) {
  for (const int64_t length : {9, 50, 131, 255}) {
    const std::string kernel =
        print(schedule(filled(kAnySoftmax, {{"$L", std::to_string(length)}}), 4096, kManySms).kernel);
    EXPECT_NE(kernel.find("f16.8 = load b0["), std::string::npos) << kernel;
    EXPECT_EQ(kernel.find("f16 = load b0["), std::string::npos) << kernel;
    EXPECT_NE(kernel.find("shared f16["), std::string::npos) << kernel;
  }
}

}  // namespace
}  // namespace fusec::codegen_test

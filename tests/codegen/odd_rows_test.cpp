// SPDX-License-Identifier: Apache-2.0
// Short and odd rows as they are scheduled for GPUs: every length gives the results of the graph, and generated code
// those of the evaluator.
#include <gtest/gtest.h>

#include "compiler/lower/gpu/gpu.h"
#include "ir/eval/graph.h"
#include "tests/codegen/scheduled_rows.h"

namespace fusec::codegen_test {
namespace {

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

constexpr const char* kPlace = R"(graph @main(%x: f16[$B, $L]) {
  %0 = argmax %x {axis = 1, last = $P}: i64[$B]
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
  for (int64_t length = 1; length <= 300 && !HasFailure(); length += length < 40 ? many_or(1, 7) : many_or(11, 50)) {
    for (const char* text : {kAnySoftmax, kAnyNorm, kAnyArgmax}) {
      // Part of one block, or several blocks and part of one.
      const int64_t rows = length % 19 == 9 ? 531 : 5;
      expect_like_graph(filled(text, {{"$L", std::to_string(length)}}), rows);
    }
  }
}

// Several rows of a block, one, and the blocks of a cluster, of which the last one has fewer elements.
constexpr int64_t kLongOddLengths[] = {257, 577, 1601, 3073, 10007, 13001};
constexpr const char* kAnyResidual = R"(graph @main(%x: f16[$B, $L], %r: f16[$B, $L], %w: f16[$L]) {
  %a = cast %x {to = f32}: f32[$B, $L]
  %b = cast %r {to = f32}: f32[$B, $L]
  %s = add %a, %b: f32[$B, $L]
  %0 = reduce_mean %s {axes = [1]}: f32[$B]
  %1 = reshape %0 {shape = [$B, 1]}: f32[$B, 1]
  %2 = sub %s, %1: f32[$B, $L]
  %3 = mul %2, %2: f32[$B, $L]
  %4 = reduce_mean %3 {axes = [1]}: f32[$B]
  %5 = reshape %4 {shape = [$B, 1]}: f32[$B, 1]
  %6 = sqrt %5: f32[$B, 1]
  %7 = div %2, %6: f32[$B, $L]
  %c = cast %w {to = f32}: f32[$L]
  %8 = mul %7, %c: f32[$B, $L]
  %9 = cast %8 {to = f16}: f16[$B, $L]
  return %9 as "y"
})";
constexpr const char* kAnyLong[] = {kAnySoftmax, kAnyNorm, kAnyResidual};

TEST(OddRows, LongOnesHaveTheResultsOfTheGraph) {
  for (const int64_t length : sampled(kLongOddLengths, 3)) {
    for (const char* text : kAnyLong) {
      const std::string own = filled(text, {{"$L", std::to_string(length)}});
      const int64_t rows = length < 1000 ? 131 : 17;
      expect_like_graph(own, rows);
      const std::string kernel = print(schedule(own, rows, kOneSmOfClusters).kernel);
      // Single accesses of 4 bytes are as fast where few threads share a row.
      EXPECT_EQ(kernel.find("shared f") != std::string::npos, text != kAnyNorm || length > 3200) << kernel;
      EXPECT_EQ(kernel.find(" cluster ") != std::string::npos, length > 12800) << kernel;
      if (HasFailure()) return;
    }
  }
}

// Whatever other rows there are.
TEST(OddRows, OneRowHasTheBitsOfSeveral) {
  for (const char* length : sampled(std::vector{"77", "577", "3073", "13001"}, 2)) {
    for (const char* text : {kAnySoftmax, kAnyNorm, kAnyResidual})
      expect_equal_bits(filled(text, {{"$L", length}}), 17, {kOneSmOfClusters, kManySmsOfClusters}, kOneSmOfClusters);
  }
}

TEST(OddRows, GeneratedCodeOfLongOnesComputesWhatTheEvaluatorDoes) {
  FUSEC_NEEDS_COMPILER_OR_GPU();
  std::vector<EmulationCase> cases;
  for (const char* text : kAnyLong) {
    for (const auto& [length, rows] : {std::pair{"577", 131}, {"3073", 17}, {"13001", 17}}) {
      const Scheduled s = schedule(filled(text, {{"$L", length}}), rows, kOneSmOfClusters);
      cases.push_back({print(s.kernel), {s.extents}, expectation(s.kernel)});
    }
  }
  expect_cuda_like_evaluator(cases);
}

// Each block of a cluster has its own part of the row in shared memory, for which it waits alone.
TEST(OddRows, BlocksOfAClusterDoNotWaitForTheOthersElements) {
  const Scheduled s = schedule(filled(kAnySoftmax, {{"$L", "50257"}}), 17, kOneSmOfClusters);
  const auto lowered = compiler::lower_to_threads(s.kernel);
  ASSERT_TRUE(lowered.ok()) << lowered.status().str();
  const std::string text = print(*lowered);
  EXPECT_NE(text.find("sync.block"), std::string::npos) << text;
  EXPECT_EQ(text.find("sync.cluster"), std::string::npos) << text;
}

// Values of a few bits, so that several places have the best one.
TEST(OddRows, ThreadsFindThePlacesOfTheGraph) {
  for (const char* length : sampled(std::vector{"257", "1001", "3073", "10007", "33001"}, 3)) {
    for (const char* last : {"0", "1"}) {
      const std::string text = filled(kPlace, {{"$L", length}, {"$P", last}});
      EXPECT_NE(print(schedule(text, 5, kOneSmOfClusters).kernel).find(" is_nan "), std::string::npos);
      expect_like_graph(text, 5);
    }
  }
}

TEST(OddRows, BlocksLoadAndStoreWholeVectors) {
  for (const int64_t length : {9, 50, 131, 255, 257, 3073, 10007}) {
    const std::string kernel =
        print(schedule(filled(kAnySoftmax, {{"$L", std::to_string(length)}}), 4096, kManySms).kernel);
    EXPECT_NE(kernel.find("f16.8 = load b0["), std::string::npos) << kernel;
    // Single elements at both ends.
    EXPECT_EQ(kernel.find("f16 = load b0[") != std::string::npos, length > 1000) << kernel;
    EXPECT_NE(kernel.find("shared f16["), std::string::npos) << kernel;
  }
}

}  // namespace
}  // namespace fusec::codegen_test

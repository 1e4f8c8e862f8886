// SPDX-License-Identifier: Apache-2.0
// Matrix products that no library multiplies: their schedules and their code under the emulation against the graph, by
// tiles of different sizes, and what the compilers make of them.
#include <gtest/gtest.h>

#include "codegen/cuda/cuda.h"
#include "codegen/emit.h"
#include "ir/eval/graph.h"
#include "tests/codegen/texts_run.h"

namespace fusec::codegen_test {
namespace {

// Rows by a matrix, with a bias and an activation.
constexpr const char* kRows = R"(graph @main(%x: f32[$B, $k], %w: f32[$n, $k], %b: f32[$n]) {
  %0 = reshape %x {shape = [$B, 1, $k]}: f32[$B, 1, $k]
  %1 = mul %0, %w: f32[$B, $n, $k]
  %2 = reduce_sum %1 {axes = [2]}: f32[$B, $n]
  %3 = add %2, %b: f32[$B, $n]
  %4 = relu %3: f32[$B, $n]
  return %4 as "y"
}
)";
// The same of 16 bits, whose rows lie in memory as tiles need them.
constexpr const char* kRows16 = R"(graph @main(%x: $T[$B, $k], %w: $T[$n, $k], %b: f32[$n]) {
  %0 = cast %x {to = f32}: f32[$B, $k]
  %1 = reshape %0 {shape = [$B, 1, $k]}: f32[$B, 1, $k]
  %2 = cast %w {to = f32}: f32[$n, $k]
  %3 = mul %1, %2: f32[$B, $n, $k]
  %4 = reduce_sum %3 {axes = [2]}: f32[$B, $n]
  %5 = add %4, %b: f32[$B, $n]
  %6 = cast %5 {to = $T}: $T[$B, $n]
  return %6 as "y"
}
)";
// A batch of products, whose right factors have their columns side by side.
constexpr const char* kBatch = R"(graph @main(%x: $T[3, $B, $k], %w: $T[3, $k, $n]) {
  %0 = reshape %x {shape = [3, $B, 1, $k]}: $T[3, $B, 1, $k]
  %1 = cast %0 {to = f32}: f32[3, $B, 1, $k]
  %2 = transpose %w {perm = [0, 2, 1]}: $T[3, $n, $k]
  %3 = reshape %2 {shape = [3, 1, $n, $k]}: $T[3, 1, $n, $k]
  %4 = cast %3 {to = f32}: f32[3, 1, $n, $k]
  %5 = mul %1, %4: f32[3, $B, $n, $k]
  %6 = reduce_sum %5 {axes = [3]}: f32[3, $B, $n]
  %7 = cast %6 {to = $T}: $T[3, $B, $n]
  return %7 as "y"
}
)";
// The sums of a convolution with a window of 3 x 3 over a padded image, and a residual.
constexpr const char* kWindows = R"(graph @main(%x: $T[$B, 5, 6, $c], %w: $T[$n, $k], %r: $T[$B, 5, 6, $n]) {
  %0 = constant $T[] {0}
  %1 = pad %x, %0 {before = [0, 0, 1, 0], after = [0, 0, 1, 0], mode = "constant"}: $T[$B, 5, 8, $c]
  %2 = unfold %1 {axis = 2, sizes = [6, 3], steps = [1, 1]}: $T[$B, 5, 6, 3, $c]
  %3 = pad %2, %0 {before = [0, 1, 0, 0, 0], after = [0, 1, 0, 0, 0], mode = "constant"}: $T[$B, 7, 6, 3, $c]
  %4 = unfold %3 {axis = 1, sizes = [5, 3], steps = [1, 1]}: $T[$B, 5, 3, 6, 3, $c]
  %5 = transpose %4 {perm = [0, 1, 3, 2, 4, 5]}: $T[$B, 5, 6, 3, 3, $c]
  %6 = reshape %5 {shape = [$B, 5, 6, 1, $k]}: $T[$B, 5, 6, 1, $k]
  %7 = cast %6 {to = f32}: f32[$B, 5, 6, 1, $k]
  %8 = cast %w {to = f32}: f32[$n, $k]
  %9 = mul %7, %8: f32[$B, 5, 6, $n, $k]
  %10 = reduce_sum %9 {axes = [4]}: f32[$B, 5, 6, $n]
  %11 = cast %10 {to = $T}: $T[$B, 5, 6, $n]
  %12 = add %11, %r: $T[$B, 5, 6, $n]
  return %12 as "y"
}
)";

struct Case {
  const char* graph;
  const char* dtype;
  int64_t rows, columns, terms;
  std::string text() const {
    return filled(graph, {{"$T", dtype},
                          {"$n", std::to_string(columns)},
                          {"$k", std::to_string(terms)},
                          {"$c", std::to_string(terms / 9)}});
  }
};
// Rows, columns and terms that fill tiles, chunks and accesses, and that do not.
const Case kCases[] = {{kRows, "f32", 70, 40, 36},   {kRows, "f32", 130, 33, 71},   {kRows, "f32", 5, 1000, 16},
                       {kBatch, "f32", 33, 36, 50},  {kBatch, "f16", 33, 35, 33},   {kBatch, "bf16", 20, 24, 96},
                       {kWindows, "f32", 2, 20, 72}, {kWindows, "f16", 3, 17, 144}, {kWindows, "bf16", 1, 8, 27},
                       {kWindows, "f16", 1, 8, 72}};  // all of whose copies begin before the first is waited for
// Products of few rows with many terms, which the blocks of a cluster share: in two, four and eight shares, with terms
// that fill the last one and that do not.
const Case kShares[] = {{kRows, "f32", 40, 20, 400},   {kRows, "f32", 5, 33, 771},   {kBatch, "f32", 5, 9, 1536},
                        {kBatch, "f16", 18, 24, 448},  {kBatch, "bf16", 5, 8, 1600}, {kRows16, "f16", 20, 24, 768},
                        {kRows16, "bf16", 9, 16, 456}, {kWindows, "f32", 1, 8, 432}, {kWindows, "f16", 1, 17, 576}};
// Sums of another order, of f32 or rounded to 16 bits; sums of up to 1,600 products of numbers from -2 to 2.
Expectation expected(const Case& c) {
  const double magnitude = c.terms > 144 ? 512 : 64;
  return std::string(c.dtype) == "f32" ? Expectation{64, -2, 2, 1, magnitude} : Expectation{4, -2, 2, 2, magnitude};
}

Scheduled scheduled(const Case& c, int sms, bool clusters = true, bool batch_invariant = false) {
  Options options;
  options.use_library = false;
  options.batch_invariant = batch_invariant;
  Scheduled s = schedule(c.text(), c.rows, {sms, clusters}, options);
  EXPECT_EQ(s.kernel.name.substr(0, 8), "product_") << ir::print(s.kernel);
  EXPECT_EQ(ir::print(s.kernel).find("reduce."), std::string::npos) << ir::print(s.kernel);
  return s;
}

std::vector<Tensor> run(const ir::Kernel& kernel, const Extents& extents) {
  std::vector<Tensor> args = make_args(kernel, extents, 7, -2, 2);
  const auto result = ir::evaluate(kernel, args, extents);
  EXPECT_TRUE(result.ok()) << result.status().str() << ir::print(kernel);
  return args;
}

void expect_like_graph(const Case& c, const Scheduled& s) {
  const std::vector<Tensor> got = run(s.kernel, s.extents);
  const auto graph = ir::parse_graph(filled(c.text(), {{"$B", std::to_string(c.rows)}}));
  ASSERT_TRUE(graph.ok()) << graph.status().str();
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < graph->inputs.size(); ++i) {
    std::vector<int64_t> shape;
    for (const Dim& extent : graph->type(graph->inputs[i]).shape) shape.push_back(extent.value());
    inputs.push_back(*Tensor::make(got[i].dtype(), shape));
    std::memcpy(inputs.back().data(), got[i].data(), got[i].bytes());
  }
  const auto results = ir::evaluate(*graph, inputs);
  ASSERT_TRUE(results.ok()) << results.status().str();
  std::vector<Tensor> want = got;
  want.back() = *Tensor::make(got.back().dtype(), got.back().shape());
  std::memcpy(want.back().data(), (*results)[0].data(), got.back().bytes());
  expect_close(got, want, expected(c), "the schedule", ir::print(s.kernel));
}

TEST(GeneralProducts, AreWhatTheGraphSays) {
  for (const Case& c : sampled(kCases)) expect_like_graph(c, scheduled(c, 4));
}

// The evaluator runs threads in lockstep and finds races.
void expect_lowered_bits(const Scheduled& s) {
  const auto lowered = compiler::lower_to_threads(s.kernel);
  ASSERT_TRUE(lowered.ok()) << lowered.status().str();
  expect_close(run(*lowered, s.extents), run(s.kernel, s.extents), {}, "lowered", ir::print(*lowered));
}
TEST(GeneralProducts, TheLoweredFormHasTheBitsOfTheScheduledOne) {
  for (const Case& c : sampled(kCases)) expect_lowered_bits(scheduled(c, 4));
}

// So a sample has the same bits in every batch.
TEST(GeneralProducts, TilesOfAllSizesAddAlike) {
  for (const Case& c : sampled(kCases)) {
    const Scheduled few = scheduled(c, 1);
    for (const int sms : {8, 500}) {
      const Scheduled other = scheduled(c, sms);
      expect_close(run(other.kernel, other.extents), run(few.kernel, few.extents), {}, "another tile",
                   ir::print(other.kernel));
    }
  }
}

TEST(GeneralProducts, TheTextRunsLikeTheEvaluator) {
  FUSEC_NEEDS_COMPILER();
  if (kSanitized) GTEST_SKIP() << "left to builds without sanitizers";
  std::vector<Scheduled> all;
  std::vector<Expectation> expectations;
  for (const Case& c : kCases) all.push_back(scheduled(c, 4)), expectations.push_back(expected(c));
  expect_texts_like_evaluator(all, expectations, Codegen::nvrtc);
}

bool has(const Scheduled& s, const char* words) { return ir::print(s.kernel).find(words) != std::string::npos; }

TEST(GeneralProducts, ShareTheTermsOfFewRows) {
  for (const Case& c : kShares) {
    const Scheduled s = scheduled(c, 132);
    EXPECT_TRUE(has(s, " cluster ")) << ir::print(s.kernel);
    expect_like_graph(c, s);
    expect_lowered_bits(s);
    if (kSanitized) break;  // they slow the evaluator down
  }
}

// The order of sums depends on the number of terms alone, as long as rows are few.
TEST(GeneralProducts, SharesOfTilesOfAllSizesAddAlike) {
  for (const Case& c : kShares) {
    const Scheduled one = scheduled(c, 132);
    const Scheduled other = scheduled(c, 2000);
    expect_close(run(other.kernel, other.extents), run(one.kernel, one.extents), {}, "another tile",
                 ir::print(other.kernel));
    if (kSanitized) break;  // they slow the evaluator down
  }
}

// Of each case, the first rows alone have the bits that they have among more rows.
TEST(GeneralProducts, AreTheSameInEveryBatchOnDemand) {
  for (const Case& c : kShares) {
    EXPECT_FALSE(has(scheduled(c, 132, true, true), " cluster "));
    EXPECT_FALSE(has(scheduled(c, 132, false), " cluster "));
    const Scheduled few = scheduled(c, 132, true, true), many = scheduled(c, 1, true, true);
    expect_close(run(many.kernel, many.extents), run(few.kernel, few.extents), {}, "many rows", ir::print(many.kernel));
    if (kSanitized) break;  // they slow the evaluator down
  }
  const Case many = {kRows, "f32", 60000, 40, 400};
  EXPECT_FALSE(has(scheduled(many, 132), " cluster "));
}

// Matrices with their terms side by side are copied past the registers, with guards at the edges of images; others are
// not.
TEST(GeneralProducts, CopyWhatLiesSideBySide) {
  EXPECT_TRUE(has(scheduled({kRows16, "f16", 70, 48, 768}, 132), "copy.async"));
  EXPECT_TRUE(has(scheduled({kWindows, "bf16", 500, 17, 576}, 132, false), "copy.async"));
  EXPECT_TRUE(has(scheduled({kWindows, "f16", 2, 17, 576}, 132), "copy.async"));
  EXPECT_FALSE(has(scheduled({kRows16, "f16", 70, 48, 772}, 132), "copy.async"));
  EXPECT_FALSE(has(scheduled({kRows, "f32", 70, 48, 768}, 132), "copy.async"));
}

TEST(GeneralProducts, SharesRunLikeTheEvaluator) {
  FUSEC_NEEDS_COMPILER();
  if (kSanitized) GTEST_SKIP() << "left to builds without sanitizers";
  std::vector<EmulationCase> cases;
  for (const Case& c : kShares) {
    const Scheduled s = scheduled(c, 132);
    cases.push_back({ir::print(s.kernel), {s.extents}, expected(c)});
  }
  expect_cuda_like_evaluator(cases);
}

TEST(GeneralProducts, StayInRegisters) {
  if (kSanitized) GTEST_SKIP() << "left to builds without sanitizers";
  const Case large[] = {
      {kRows, "f32", 197, 768, 768},     {kRows, "f32", 49, 512, 4608},    {kRows16, "f16", 197, 768, 3072},
      {kWindows, "f16", 1, 512, 4608},   {kRows, "f32", 12544, 3072, 768}, {kRows, "f32", 200704, 64, 147},
      {kRows, "f32", 100, 512, 4608},    {kBatch, "f32", 384, 384, 64},    {kBatch, "f16", 384, 384, 64},
      {kWindows, "f32", 500, 128, 1152}, {kWindows, "f16", 500, 128, 1152}};
  for (const Codegen codegen : {Codegen::nvrtc, Codegen::llvm})
    for (const Case& c : large) {
      SCOPED_TRACE(static_cast<int>(codegen));
      const Scheduled s = scheduled(c, 132);
      const auto artifact = codegen_test::emit(s.kernel, named_target("sm_90").value(), {.codegen = codegen});
      if (artifact.status().code() == StatusCode::unsupported) break;  // no such compiler
      ASSERT_TRUE(artifact.ok()) << artifact.status().str();
      const codegen::ArtifactPhase& phase = artifact->phases.at(0);
      EXPECT_LE(phase.local_bytes, 32) << ir::print(s.kernel);  // addresses; the sums are 256 bytes
      EXPECT_LE(phase.registers * phase.threads, 32768) << phase.registers << ir::print(s.kernel);
    }
}

}  // namespace
}  // namespace fusec::codegen_test

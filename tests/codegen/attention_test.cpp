// SPDX-License-Identifier: Apache-2.0
// Attentions that no library computes: their schedules and their code under the emulation against the graph, by tiles
// of different sizes, and what the compilers make of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>

#include "codegen/cuda/cuda.h"
#include "codegen/emit.h"
#include "ir/eval/graph.h"
#include "ir/ops/cast.h"
#include "tests/codegen/texts_run.h"

namespace fusec::codegen_test {
namespace {

// Heads as they lie in memory.
constexpr const char* kHeads =
    R"(graph @main(%q: $T[$N, $H, $S, $D], %k: $T[$N, $G, $K, $D], %v: $T[$N, $G, $K, $E]$m) {
  %0 = attention %q, %k, %v$a {scale = 0.25, causal = $c}: $T[$N, $H, $S, $E]
  return %0 as "y"
}
)";
// Heads that a projection has written side by side.
constexpr const char* kProjected =
    R"(graph @main(%q: $T[$N, $S, $H, $D], %k: $T[$N, $K, $G, $D], %v: $T[$N, $K, $G, $E]$m) {
  %0 = transpose %q {perm = [0, 2, 1, 3]}: $T[$N, $H, $S, $D]
  %1 = transpose %k {perm = [0, 2, 1, 3]}: $T[$N, $G, $K, $D]
  %2 = transpose %v {perm = [0, 2, 1, 3]}: $T[$N, $G, $K, $E]
  %3 = attention %0, %1, %2$a {scale = 0.25, causal = $c}: $T[$N, $H, $S, $E]
  return %3 as "y"
}
)";

struct Case {
  const char* dtype;
  int64_t channels, values;
  int64_t heads, shared, queries, keys;
  bool causal = false;
  const char* mask = nullptr;  // its shape
  const char* graph = kHeads;
  int64_t samples = 1;

  // With names in the place of queries and keys.
  std::string text(const std::string& s, const std::string& k) const {
    const auto n = [](int64_t value) { return std::to_string(value); };
    return filled(graph, {{"$m", mask != nullptr ? std::string(", %mask: $T[") + mask + "]" : ""},
                          {"$a", mask != nullptr ? ", %mask" : ""},
                          {"$c", causal ? "1" : "0"},
                          {"$T", dtype},
                          {"$N", n(samples)},
                          {"$H", n(heads)},
                          {"$G", n(shared)},
                          {"$S", s},
                          {"$K", k},
                          {"$D", n(channels)},
                          {"$E", n(values)}});
  }
  std::string text() const { return text(std::to_string(queries), std::to_string(keys)); }
};

// Channels that fill accesses, chunks and threads, and that do not; queries and keys that fill tiles, and that do not.
const Case kCases[] = {
    {"f32", 64, 64, 2, 2, 70, 130},
    {"f32", 33, 33, 2, 1, 40, 65, false, nullptr, kHeads, 2},
    {"f32", 40, 40, 2, 1, 33, 64, false, "$N, 1, $S, $K", kHeads, 2},
    {"f32", 72, 80, 1, 1, 20, 20, true},
    {"f32", 96, 128, 1, 1, 40, 100, true},
    {"f32", 8, 62, 1, 1, 64, 9, false, "1, 1, 1, $K"},
    {"f32", 32, 32, 3, 3, 49, 49, false, "$H, $S, $K", kProjected},
    {"f16", 64, 64, 2, 2, 70, 130},
    {"bf16", 64, 64, 1, 1, 70, 130, true},
    {"f16", 33, 33, 2, 1, 40, 65, false, nullptr, kHeads, 2},
    {"bf16", 40, 40, 2, 1, 33, 64, false, "$N, 1, $S, $K", kHeads, 2},
    {"f16", 72, 80, 1, 1, 20, 20, true},
    {"f16", 96, 128, 1, 1, 40, 100, true},
    {"bf16", 8, 62, 1, 1, 64, 9, false, "1, 1, 1, $K"},
    {"f16", 32, 32, 3, 3, 49, 49, false, "$H, $S, $K", kProjected},
};
// A small one under sanitizers, which slow the evaluator down.
std::span<const Case> cases() { return kSanitized ? std::span(kCases).subspan(5, 1) : std::span(kCases); }

// Weights are rounded to 16 bits between the products.
Expectation expected(const Case& c) {
  return std::string(c.dtype) == "f32" ? Expectation{64, -2, 2, 1, 1} : Expectation{8, -2, 2, 2, 1};
}

Options without_libraries() {
  Options options;
  options.use_library = false;
  return options;
}

Scheduled scheduled(const Case& c, int sms, bool has_mma = true) {
  Scheduled s = schedule(c.text(), 0, {sms, has_mma}, without_libraries());
  EXPECT_EQ(s.kernel.name.substr(0, 9), "attention") << ir::print(s.kernel);
  return s;
}

// The kernel of a graph for these values of its symbols.
Scheduled first_kernel(const ir::Graph& graph, const Target& target, const std::map<std::string, int64_t>& symbols) {
  const Options options = without_libraries();
  const auto parts = compiler::partition(graph, target, options);
  EXPECT_TRUE(parts.ok()) << parts.status().str();
  const auto program = compiler::lower(graph, *parts, target, options, {}, {.most = 1});
  EXPECT_TRUE(program.ok()) << program.status().str();
  for (const ir::Variant& variant : program->slots[0].variants) {
    const auto holds = [&](const Dim& dim) { return dim.eval(symbols).value_or(0) >= 0; };
    if (!std::all_of(variant.when.begin(), variant.when.end(), holds)) continue;
    const auto& step = std::get<ir::KernelStep>(variant.candidates[0].steps[0].v);
    Scheduled s{program->kernels[step.kernel], {}};
    EXPECT_TRUE(ir::verify(s.kernel).ok()) << ir::verify(s.kernel).str();
    for (std::size_t i = 0; i < step.extents.size(); ++i)
      s.extents[s.kernel.extents[ir::ExtentId{static_cast<uint32_t>(i)}]] = step.extents[i].eval(symbols).value();
    return s;
  }
  ADD_FAILURE() << "no variant";
  return {};
}

std::vector<Tensor> run(const ir::Kernel& kernel, const Extents& extents) {
  std::vector<Tensor> args = make_args(kernel, extents, 7, -2, 2);
  const auto result = ir::evaluate(kernel, args, extents);
  EXPECT_TRUE(result.ok()) << result.status().str() << ir::print(kernel);
  return args;
}

// What the graph gives for the inputs among the arguments of a kernel.
std::vector<Tensor> by_graph(const std::string& text, const std::vector<Tensor>& args) {
  const auto graph = ir::parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().str();
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < graph->inputs.size(); ++i) {
    std::vector<int64_t> shape;
    for (const Dim& extent : graph->type(graph->inputs[i]).shape) shape.push_back(extent.value());
    const Tensor& arg =
        args[i < 2 || graph->inputs.size() < 4 ? i : 5 - i];  // a kernel reads the mask before the values
    inputs.push_back(*Tensor::make(arg.dtype(), shape));
    EXPECT_EQ(inputs.back().bytes(), arg.bytes());
    std::memcpy(inputs.back().data(), arg.data(), std::min(inputs.back().bytes(), arg.bytes()));
  }
  const auto results = ir::evaluate(*graph, inputs);
  EXPECT_TRUE(results.ok()) << results.status().str();
  std::vector<Tensor> want = args;
  want.back() = *Tensor::make(args.back().dtype(), args.back().shape());
  std::memcpy(want.back().data(), (*results)[0].data(), args.back().bytes());
  return want;
}

TEST(Attention, IsWhatTheGraphSays) {
  for (const Case& c : cases()) {
    const Scheduled s = scheduled(c, 4);
    const std::vector<Tensor> got = run(s.kernel, s.extents);
    expect_close(got, by_graph(c.text(), got), expected(c), "the schedule", ir::print(s.kernel));
  }
}

// The evaluator runs threads in lockstep and finds races.
TEST(Attention, TheLoweredFormHasTheBitsOfTheScheduledOne) {
  for (const Case& c : cases()) {
    const Scheduled s = scheduled(c, 4);
    const auto lowered = compiler::lower_to_threads(s.kernel);
    ASSERT_TRUE(lowered.ok()) << lowered.status().str();
    expect_close(run(*lowered, s.extents), run(s.kernel, s.extents), {}, "lowered", ir::print(*lowered));
  }
}

// So a sample has the same bits in every batch.
TEST(Attention, TilesOfAllSizesAddAlike) {
  for (const Case& c : cases()) {
    const Scheduled few = scheduled(c, 1);
    for (const int sms : {5, 500}) {
      const Scheduled other = scheduled(c, sms);
      expect_close(run(other.kernel, other.extents), run(few.kernel, few.extents), {}, "another tile",
                   ir::print(other.kernel));
    }
  }
}

// Before sm_80, and where the factors are f32, products are those of f32.
TEST(Attention, OfHalvesBySums) {
  const Case c{"f16", 40, 64, 2, 1, 33, 70, true};
  Target target = *named_target("sm_75");
  const auto graph = ir::parse_graph(c.text());
  ASSERT_TRUE(graph.ok()) << graph.status().str();
  const Scheduled s = first_kernel(*graph, target, {});
  EXPECT_EQ(ir::print(s.kernel).find(" mma "), std::string::npos) << ir::print(s.kernel);
  const std::vector<Tensor> got = run(s.kernel, s.extents);
  expect_close(got, by_graph(c.text(), got), {2, -2, 2, 2, 1}, "the schedule", ir::print(s.kernel));
}

// One kernel for all numbers of samples, queries and keys.
TEST(Attention, OfLengthsThatAreSymbols) {
  for (const char* dtype : {"f32", "f16"})
    for (const bool causal : {false, true}) {
      Case c{dtype, 64, 40, 2, 1, 0, 0, causal};
      if (!causal) c.mask = "1, $H, $S, $K";
      for (const auto& [queries, stored] :
           std::vector<std::pair<int64_t, int64_t>>{{1, 0}, {5, 70}, {70, 0}, {33, 95}}) {
        SCOPED_TRACE(filled("$d: $q queries, $s stored",
                            {{"$d", dtype}, {"$q", std::to_string(queries)}, {"$s", std::to_string(stored)}}));
        const auto graph = ir::parse_graph(c.text("S", "S + P"));
        ASSERT_TRUE(graph.ok()) << graph.status().str();
        const Scheduled s = first_kernel(*graph, *named_target("sm_90"), {{"S", queries}, {"P", stored}});
        const std::vector<Tensor> got = run(s.kernel, s.extents);
        const std::string text = c.text(std::to_string(queries), std::to_string(queries + stored));
        expect_close(got, by_graph(text, got), expected(c), "the schedule", ir::print(s.kernel));
        if (kSanitized) break;  // they slow the evaluator down
      }
    }
}

// Masks that drop whole blocks of keys, and whole rows: those have equal weights where all scores are the least number,
// and none where they are -infinity.
TEST(Attention, OfRowsWithoutScores) {
  constexpr std::size_t kMask = 2;  // among the arguments
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kLowest = std::numeric_limits<float>::lowest();
  for (const char* dtype : {"f32", "bf16"}) {
    const Case c{dtype, 16, 16, 1, 1, 8, 150, false, "1, 1, $S, $K"};
    const Scheduled s = scheduled(c, 4);
    std::vector<Tensor> args = make_args(s.kernel, s.extents, 7, -2, 2);
    const DType type = args[kMask].dtype();
    for (int64_t row = 0; row < c.queries; ++row)
      for (int64_t key = 0; key < c.keys; ++key) {
        const double low = row % 2 == 0 ? -kInfinity : type == DType::f32 ? kLowest : -3e38;
        const bool drops = row < 2 || (row < 4 ? key < 128 : row < 6 ? key >= 3 : key % 2 == 0);
        ir::store_double(type, args[kMask].as<char>() + (row * c.keys + key) * static_cast<int64_t>(size_of(type)),
                         drops ? low : 0.5);
      }
    ASSERT_TRUE(ir::evaluate(s.kernel, args, s.extents).ok());
    const std::vector<Tensor> want = by_graph(c.text(), args);
    expect_close(args, want, expected(c), "the schedule", ir::print(s.kernel));
    EXPECT_TRUE(std::isnan(ir::load_double(type, args.back().as<char>())));
    EXPECT_FALSE(std::isnan(ir::load_double(type, args.back().as<char>() + 16 * size_of(type))));
  }
}

TEST(Attention, WithoutKeysIsZero) {
  const auto graph = ir::parse_graph(Case{"f32", 16, 16, 1, 1, 8, 0}.text("8", "K"));
  ASSERT_TRUE(graph.ok()) << graph.status().str();
  const Scheduled s = first_kernel(*graph, *named_target("sm_90"), {{"K", 0}});
  const std::vector<Tensor> got = run(s.kernel, s.extents);
  for (int64_t i = 0; i < got.back().num_elements(); ++i) EXPECT_EQ(got.back().as<float>()[i], 0);
}

void expect_like_evaluator(Codegen codegen) {
  std::vector<Scheduled> all;
  std::vector<Expectation> expectations;
  for (const Case& c : kCases) all.push_back(scheduled(c, 4)), expectations.push_back(expected(c));
  expect_texts_like_evaluator(all, expectations, codegen);
}

TEST(Attention, TheTextRunsLikeTheEvaluator) {
  FUSEC_NEEDS_COMPILER();
  if (kSanitized) GTEST_SKIP() << "left to builds without sanitizers";
  expect_like_evaluator(Codegen::nvrtc);
}

TEST(Attention, TheTextForLlvmRunsLikeTheEvaluator) {
  FUSEC_NEEDS_LLVM_COMPILER();
  if (kSanitized) GTEST_SKIP() << "left to builds without sanitizers";
  expect_like_evaluator(Codegen::llvm);
}

TEST(Attention, StaysInRegisters) {
  if (kSanitized) GTEST_SKIP() << "left to builds without sanitizers";
  const Case large[] = {{"f32", 64, 64, 12, 12, 197, 197},          {"f32", 64, 64, 12, 12, 1024, 1024, true},
                        {"f32", 128, 128, 32, 8, 1024, 1024, true}, {"f32", 32, 32, 3, 3, 49, 49, false, "$H, $S, $K"},
                        {"f32", 80, 80, 12, 12, 197, 197},          {"f16", 64, 64, 12, 12, 197, 197},
                        {"f16", 128, 128, 32, 8, 1024, 1024, true}, {"bf16", 32, 32, 3, 3, 49, 49, false, "$H, $S, $K"},
                        {"f16", 80, 80, 12, 12, 197, 197}};
  for (const Codegen codegen : {Codegen::nvrtc, Codegen::llvm})
    for (const Case& c : large)
      for (const char* name : {"sm_80", "sm_90"}) {
        const Scheduled s = scheduled(c, 4);
        const auto artifact = codegen_test::emit(s.kernel, named_target(name).value(), {.codegen = codegen});
        if (artifact.status().code() == StatusCode::unsupported) break;  // no such compiler
        ASSERT_TRUE(artifact.ok()) << artifact.status().str();
        const codegen::ArtifactPhase& phase = artifact->phases.at(0);
        EXPECT_EQ(phase.local_bytes, 0) << name << ir::print(s.kernel);
        EXPECT_LE(phase.registers, 255) << ir::print(s.kernel);
      }
}

}  // namespace
}  // namespace fusec::codegen_test

// SPDX-License-Identifier: Apache-2.0
// Candidates: what lower lists for a region, that all of them give the same bits, and which one select takes by
// predicted and by measured times.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/lower/gpu/gpu.h"
#include "compiler/lower/lower.h"
#include "compiler/partition/partition.h"
#include "compiler/passes/pipeline.h"
#include "compiler/select/select.h"
#include "ir/eval/kernel.h"
#include "ir/ops/random.h"
#include "ir/text/graph_text.h"
#include "ir/text/kernel_text.h"
#include "tests/sanitized.h"

namespace fusec::compiler {
namespace {

using testing_support::sampled;

const CandidateLimits kAll{0, 0, [](const ir::Kernel&) { return true; }, 1e9, 64};
// Those that are worth measuring.
const CandidateLimits kMeasured{4, 0, [](const ir::Kernel&) { return true; }};

ir::Program lowered_program(const std::string& graph_text, const Target& target, const CandidateLimits& limits = {}) {
  ir::Graph graph = ir::parse_graph(graph_text).value();
  const Status optimized = optimize(graph, target, {});
  EXPECT_TRUE(optimized.ok()) << optimized.str();
  const auto parts = partition(graph, target, {});
  EXPECT_TRUE(parts.ok()) << parts.status().str();
  auto program = lower(graph, *parts, target, {}, {}, limits);
  EXPECT_TRUE(program.ok()) << program.status().str();
  return program.ok() ? *std::move(program) : ir::Program();
}

std::string softmax_text(const std::string& shape, const std::string& row) {
  const std::string one = "f32[" + row + ", 1]", all = "f32[" + shape + "]";
  return "graph @main(%x: " + all + ") {\n  %0 = reduce_max %x {axes = [1]}: f32[" + row +
         "]\n  %1 = reshape %0 {shape = [" + row + ", 1]}: " + one + "\n  %2 = sub %x, %1: " + all +
         "\n  %3 = exp %2: " + all + "\n  %4 = reduce_sum %3 {axes = [1]}: f32[" + row +
         "]\n  %5 = reshape %4 {shape = [" + row + ", 1]}: " + one + "\n  %6 = div %3, %5: " + all +
         "\n  return %6 as \"y\"\n}\n";
}

std::string pointwise_text(const std::string& shape) {
  return "graph @main(%x: f32[" + shape + "]) {\n  %0 = exp %x: f32[" + shape + "]\n  return %0 as \"y\"\n}\n";
}

const std::vector<ir::Candidate>& candidates_of(const ir::Program& program) {
  return program.slots.at(0).variants.at(0).candidates;
}

std::vector<std::string> reasons_of(const ir::Program& program) {
  std::vector<std::string> all;
  for (const ir::Candidate& candidate : candidates_of(program)) all.push_back(candidate.why);
  return all;
}

bool lists_candidate(const ir::Program& program, const std::string& why) {
  const auto all = reasons_of(program);
  return std::find(all.begin(), all.end(), why) != all.end();
}

// --- lower -----------------------------------------------------------------------------------------------------------

TEST(Candidates, AShortKernelHasOne) {
  for (const char* target : {"sm_90", "x86-64-v4"}) {
    const ir::Program program = lowered_program(pointwise_text("64, 64"), named_target(target).value(), kMeasured);
    EXPECT_EQ(reasons_of(program), std::vector<std::string>{"the only way"}) << target;
  }
}

TEST(Candidates, AKernelNearItsBoundHasOneUnlessItIsMeasured) {
  const Target target = named_target("sm_90").value();
  EXPECT_EQ(reasons_of(lowered_program(pointwise_text("4096, 4096"), target)).size(), 1U);
  const ir::Program all = lowered_program(pointwise_text("4096, 4096"), target, kMeasured);
  const auto& step = std::get<ir::KernelStep>(candidates_of(all)[0].steps[0].v);
  const std::string key = kernel_key(all.kernels[step.kernel]);
  EXPECT_EQ(key, candidate_key(all, candidates_of(all)[0]));
  CandidateLimits limits;
  limits.is_measured = [&](const ir::Kernel& first) { return kernel_key(first) == key; };
  EXPECT_EQ(reasons_of(lowered_program(pointwise_text("4096, 4096"), target, limits)), reasons_of(all));
}

TEST(Candidates, ALongKernelHasTheAlternativesOfItsFamily) {
  const ir::Program gpu = lowered_program(softmax_text("65536, 1000", "65536"), named_target("sm_90").value(), kAll);
  EXPECT_TRUE(lists_candidate(gpu, "read again")) << ::testing::PrintToString(reasons_of(gpu));
  const ir::Program rows = lowered_program(softmax_text("64, 40000", "64"), named_target("sm_90").value(), kAll);
  EXPECT_TRUE(lists_candidate(rows, "without a cluster")) << ::testing::PrintToString(reasons_of(rows));
  const ir::Program older = lowered_program(softmax_text("64, 40000", "64"), named_target("sm_89").value(), kAll);
  EXPECT_TRUE(lists_candidate(older, "whole rows")) << ::testing::PrintToString(reasons_of(older));
  const ir::Program flat = lowered_program(pointwise_text("4096, 4096"), named_target("sm_90").value(), kMeasured);
  EXPECT_TRUE(lists_candidate(flat, "128 threads")) << ::testing::PrintToString(reasons_of(flat));
  const ir::Program cpu = lowered_program(pointwise_text("4096, 4096"), named_target("x86-64-v4").value(), kMeasured);
  EXPECT_TRUE(lists_candidate(cpu, "16384 elements a task")) << ::testing::PrintToString(reasons_of(cpu));
  EXPECT_TRUE(lists_candidate(cpu, "through the caches")) << ::testing::PrintToString(reasons_of(cpu));
}

std::string transpose_text() {
  return "graph @main(%x: f16[64, 200, 264]) {\n  %0 = transpose %x {perm = [0, 2, 1]}: f16[64, 264, 200]\n"
         "  return %0 as \"y\"\n}\n";
}

std::string columns_text() {
  return "graph @main(%x: f32[2, 600, 520]) {\n  %0 = reduce_sum %x {axes = [1]}: f32[2, 520]\n"
         "  return %0 as \"y\"\n}\n";
}

TEST(Candidates, TransposesDifferInTilesAndColumnsInStrips) {
  const Target target = named_target("sm_90").value();
  const auto count = [](const ir::Program& program, const std::string& words) {
    const auto all = reasons_of(program);
    return std::count_if(all.begin() + 1, all.end(),
                         [&](const std::string& why) { return why.find(words) != std::string::npos; });
  };
  const ir::Program transpose = lowered_program(transpose_text(), target, kAll);
  EXPECT_GE(count(transpose, " rows"), 1) << ::testing::PrintToString(reasons_of(transpose));
  EXPECT_GE(count(transpose, " columns"), 1) << ::testing::PrintToString(reasons_of(transpose));
  const ir::Program columns = lowered_program(columns_text(), target, kAll);
  EXPECT_GE(count(columns, "strips of"), 1) << ::testing::PrintToString(reasons_of(columns));
}

TEST(Candidates, DifferInTheirKernelsAndAreFewAndNotFarFromTheFirst) {
  const ir::Program program =
      lowered_program(softmax_text("65536, 1000", "65536"), named_target("sm_90").value(), kMeasured);
  const auto& all = candidates_of(program);
  ASSERT_GE(all.size(), 2U);
  EXPECT_LE(all.size(), CandidateLimits().most);
  std::set<std::string> keys;
  for (const ir::Candidate& candidate : all) {
    EXPECT_TRUE(keys.insert(candidate_key(program, candidate)).second) << candidate.why;
    EXPECT_LE(candidate.predicted_us, CandidateLimits().far_from_first * all[0].predicted_us) << candidate.why;
  }
}

// The bytes of the outputs of one candidate, evaluated on the same inputs.
std::vector<std::vector<char>> evaluate_candidate(const ir::Program& program, const ir::Candidate& candidate,
                                                  const Target& target) {
  std::map<ir::AllocId, Tensor> memory;
  const auto reach = [&](const ir::View& view) {
    const ir::Allocation& alloc = program.allocs[view.alloc];
    if (!memory.contains(view.alloc))
      memory.emplace(view.alloc, *ir::random_tensor(alloc.dtype, {alloc.elements.value()}, view.alloc.index + 1));
    char* const base = memory.at(view.alloc).as<char>();
    return Tensor::borrow(alloc.dtype, {view.shape[0].value()},
                          base + view.offset.value() * static_cast<int64_t>(size_of(alloc.dtype)));
  };
  for (const ir::Step& launch : candidate.steps) {
    const auto& step = std::get<ir::KernelStep>(launch.v);
    const ir::Kernel& kernel = program.kernels[step.kernel];
    std::vector<Tensor> args;
    for (std::size_t i = 0; i < kernel.params.size(); ++i) args.push_back(reach(step.args[i]));
    std::map<std::string, int64_t> extents;
    for (uint32_t i = 0; i < step.extents.size(); ++i)
      extents[kernel.extents[ir::ExtentId{i}]] = step.extents[i].value();
    const ir::Kernel form = target.kind == TargetKind::cuda ? lower_for_writer(kernel, target).value() : kernel;
    const auto done = ir::evaluate(form, args, extents);
    EXPECT_TRUE(done.ok()) << candidate.why << ": " << done.status().str();
  }
  std::vector<std::vector<char>> out;
  for (const ir::AllocId id : program.outputs) {
    const auto* bytes = memory.at(id).as<char>();
    out.emplace_back(bytes, bytes + memory.at(id).bytes());
  }
  return out;
}

std::size_t expect_equal_bits(const std::string& graph, const Target& target) {
  const ir::Program program = lowered_program(graph, target, kAll);
  const auto& all = candidates_of(program);
  const auto first = evaluate_candidate(program, all[0], target);
  for (const ir::Candidate& candidate : all)
    EXPECT_EQ(first, evaluate_candidate(program, candidate, target)) << candidate.why << "\n" << graph;
  return all.size();
}

// The outputs of the kernel that a variant picks, evaluated for these values of the symbols.
std::vector<Tensor> evaluate_variant(const ir::Program& program, const ir::Variant& variant, const Target& target,
                                     const std::map<std::string, int64_t>& symbols) {
  const auto& step = std::get<ir::KernelStep>(variant.candidates.at(0).steps.at(0).v);
  const ir::Kernel& kernel = program.kernels[step.kernel];
  std::vector<Tensor> args, out;
  for (std::size_t i = 0; i < kernel.params.size(); ++i) {
    const ir::View& view = step.args[i];
    args.push_back(*ir::random_tensor(program.allocs[view.alloc].dtype, {view.shape[0].eval(symbols).value()}, i + 1));
  }
  std::map<std::string, int64_t> extents;
  for (uint32_t i = 0; i < step.extents.size(); ++i)
    extents[kernel.extents[ir::ExtentId{i}]] = step.extents[i].eval(symbols).value();
  const auto done = ir::evaluate(lower_for_writer(kernel, target).value(), args, extents);
  EXPECT_TRUE(done.ok()) << kernel.name << ": " << done.status().str();
  for (std::size_t i = 0; i < kernel.params.size(); ++i)
    if (kernel.buffers[kernel.params[i]].space == ir::Space::out) out.push_back(std::move(args[i]));
  return out;
}

// The kernels for rows that 16 bytes divide, and those for all shapes.
void expect_equal_variants(const std::string& graph, const std::vector<std::map<std::string, int64_t>>& shapes,
                           double tolerance) {
  const Target target = named_target("sm_90").value();
  const ir::Program program = lowered_program(graph, target);
  const std::vector<ir::Variant>& variants = program.slots.at(0).variants;
  ASSERT_GE(variants.size(), 3U) << graph;
  for (const auto& symbols : shapes) {
    const auto aligned = evaluate_variant(program, variants.front(), target, symbols);
    const auto usual = evaluate_variant(program, variants.back(), target, symbols);
    ASSERT_EQ(aligned.size(), usual.size());
    for (std::size_t i = 0; i < usual.size(); ++i) {
      if (tolerance == 0) {
        EXPECT_EQ(std::memcmp(aligned[i].data(), usual[i].data(), usual[i].bytes()), 0) << graph;
        continue;
      }
      for (std::size_t at = 0; at < usual[i].bytes() / sizeof(float); ++at)
        ASSERT_NEAR(aligned[i].as<float>()[at], usual[i].as<float>()[at], tolerance) << graph;
    }
  }
}

TEST(Candidates, VariantsForAlignedRowsGiveTheResultsOfTheOthers) {
  const auto graph = [](const std::string& inputs, const std::string& body) {
    return "graph @main(" + inputs + ") {\n" + body + "  return %0 as \"y\"\n}\n";
  };
  const std::vector<std::map<std::string, int64_t>> shapes = {
      {{"N", 3}, {"S", 8}}, {{"N", 2}, {"S", 1000}}, {{"N", 1}, {"S", 4104}}, {{"N", 0}, {"S", 16}}};
  expect_equal_variants(graph("%x: f32[N, S], %b: f32[S]", "  %0 = add %x, %b: f32[N, S]\n"), shapes, 0);
  expect_equal_variants(graph("%x: f16[N, S]", "  %0 = reduce_max %x {axes = [1]}: f16[N]\n"), shapes, 0);
  expect_equal_variants(graph("%x: i32[N, S]", "  %0 = reduce_sum %x {axes = [1]}: i32[N]\n"), shapes, 0);
  expect_equal_variants(graph("%x: f32[N, S]", "  %0 = reduce_sum %x {axes = [0]}: f32[S]\n"), shapes, 0);
  expect_equal_variants(graph("%x: f16[N, S, 24]", "  %0 = transpose %x {perm = [0, 2, 1]}: f16[N, 24, S]\n"), shapes,
                        0);
  expect_equal_variants(softmax_text("N, S", "N"), shapes, 1e-6);
}

std::string kernel_text(const ir::Program& program, const ir::Variant& variant) {
  return ir::print(program.kernels[std::get<ir::KernelStep>(variant.candidates.at(0).steps.at(0).v).kernel]);
}

// An f32 scale of each channel of f16 images: a thread takes 16 bytes at once, and several times if the images are
// many.
TEST(Candidates, VariantsForManyImagesGiveTheSameBits) {
  const std::string image = "[N, 20, 20, 64]";
  const std::string graph =
      "graph @main(%x: f16" + image + ", %s: f32[N, 1, 1, 64]) {\n  %0 = cast %x {to = f32}: f32" + image +
      "\n  %1 = mul %0, %s: f32" + image + "\n  %2 = cast %1 {to = f16}: f16" + image + "\n  return %2 as \"y\"\n}\n";
  expect_equal_variants(graph, {{{"N", 3}}, {{"N", 1}}, {{"N", 0}}}, 0);
  const ir::Program program = lowered_program(graph, named_target("sm_90").value());
  const std::vector<ir::Variant>& variants = program.slots.at(0).variants;
  const std::string few = kernel_text(program, variants.front()), many = kernel_text(program, variants.back());
  for (const std::string& text : {few, many}) EXPECT_NE(text.find("f16.8 = load b0"), std::string::npos) << text;
  EXPECT_EQ(few.find("unroll"), std::string::npos) << few;
  EXPECT_NE(many.find("reg f16[4, 8]"), std::string::npos) << many;
}

// A heavy producer whose result several phases of a row read.
std::string gelu_softmax_text(const std::string& shape, const std::string& row) {
  const std::string one = "f32[" + row + ", 1]", all = "f32[" + shape + "]";
  return "graph @main(%x: " + all + ") {\n  %0 = gelu %x: " + all + "\n  %1 = reduce_max %0 {axes = [1]}: f32[" + row +
         "]\n  %2 = reshape %1 {shape = [" + row + ", 1]}: " + one + "\n  %3 = sub %0, %2: " + all +
         "\n  %4 = exp %3: " + all + "\n  %5 = reduce_sum %4 {axes = [1]}: f32[" + row +
         "]\n  %6 = reshape %5 {shape = [" + row + ", 1]}: " + one + "\n  %7 = div %4, %6: " + all +
         "\n  return %7 as \"y\"\n}\n";
}

std::string gelu_max_text() {
  return "graph @main(%x: f32[70, 900]) {\n  %0 = gelu %x: f32[70, 900]\n  %1 = reduce_max %0 {axes = [1]}: f32[70]\n"
         "  %2 = reshape %1 {shape = [70, 1]}: f32[70, 1]\n  %3 = sub %0, %2: f32[70, 900]\n"
         "  return %3 as \"y\"\n}\n";
}

bool lists_split(const ir::Program& program) {
  const auto& all = candidates_of(program);
  return std::any_of(all.begin(), all.end(), [](const auto& candidate) { return candidate.steps.size() == 2; });
}

TEST(Candidates, ARegionInTwoKernelsGivesTheSameBits) {
  Target gpu = named_target("sm_90").value(), cpu = named_target("x86-64-v3").value();
  cpu.threads = 2;
  for (const std::string& graph : sampled(
           std::vector{gelu_softmax_text("5, 1000", "5"), gelu_softmax_text("2, 40000", "2"), gelu_max_text()}, 2)) {
    EXPECT_TRUE(lists_split(lowered_program(graph, gpu, kAll))) << graph;
    expect_equal_bits(graph, gpu);
  }
  EXPECT_TRUE(lists_split(lowered_program(gelu_max_text(), cpu, kAll)));
  expect_equal_bits(gelu_max_text(), cpu);
  // The order of sums is not evident in the loops of a CPU.
  EXPECT_FALSE(lists_split(lowered_program(gelu_softmax_text("5, 1000", "5"), cpu, kAll)));
}

TEST(Candidates, AValueThatMemoryWouldRoundIsNoPlaceToSplit) {
  std::string graph = gelu_softmax_text("5, 1000", "5");
  for (std::size_t at = 0; (at = graph.find("f32", at)) != std::string::npos; ++at) graph.replace(at, 3, "f16");
  const ir::Program program = lowered_program(graph, named_target("sm_90").value(), kAll);
  for (const ir::Candidate& candidate : candidates_of(program)) EXPECT_EQ(candidate.steps.size(), 1U) << candidate.why;
}

TEST(Candidates, GiveTheSameBits) {
  const std::string transposed =
      "graph @main(%x: f32[70, 90]) {\n  %0 = transpose %x {perm = [1, 0]}: f32[90, 70]\n  %1 = exp %0: f32[90, 70]\n"
      "  return %1 as \"y\"\n}\n";
  const std::string channels =
      "graph @main(%x: f32[3, 40, 24], %s: f32[3, 1, 1]) {\n  %0 = mul %x, %s: f32[3, 40, 24]\n"
      "  return %0 as \"y\"\n}\n";
  const std::string columns =
      "graph @main(%x: f32[300, 70]) {\n  %0 = reduce_sum %x {axes = [0]}: f32[70]\n  return %0 as \"y\"\n}\n";
  std::size_t all = 0;
  for (const char* name : {"sm_90", "x86-64-v3"}) {
    Target target = named_target(name).value();
    target.threads = 2;
    for (const std::string& graph :
         sampled(std::vector{pointwise_text("100, 333"), channels, transposed, softmax_text("2, 40000", "2"), columns,
                             softmax_text("33, 96", "33"), softmax_text("5, 1000", "5")},
                 2))
      all += expect_equal_bits(graph, target);
  }
  EXPECT_GE(all, testing_support::many_or(30U, 10U)) << "there is little to compare";
}

// --- select ----------------------------------------------------------------------------------------------------------

// Two candidates with kernels of their own, for these extents.
ir::Program two_candidates(std::vector<Dim> extents, double first_us, double second_us) {
  ir::Program program;
  ir::Variant variant;
  for (const double us : {first_us, second_us}) {
    ir::Kernel kernel;
    kernel.name = "k";
    kernel.fits32 = us == first_us;  // a difference
    ir::KernelStep step;
    step.kernel = program.kernels.push_back(kernel);
    step.extents = extents;
    variant.candidates.push_back({{{step, ""}}, "", us});
  }
  program.slots.push_back({{variant}});
  return program;
}

TuningData::Times times_of(const ir::Program& program, CandidateTime first, CandidateTime second) {
  return {{candidate_key(program, candidates_of(program)[0]), first},
          {candidate_key(program, candidates_of(program)[1]), second}};
}

int picked_of(ir::Program program, const std::map<std::vector<int64_t>, TuningData::Times>& measured = {}) {
  TuningData data;
  if (!measured.empty()) data.candidates[candidate_key(program, candidates_of(program)[0])] = measured;
  EXPECT_TRUE(select(program, named_target("sm_90").value(), data).ok());
  return program.slots[0].variants.back().picked;  // in front are those for single shapes
}

TEST(Select, ThePredictionMustBeClearlyBetter) {
  EXPECT_EQ(picked_of(two_candidates({8}, 10, 10)), 0);
  EXPECT_EQ(picked_of(two_candidates({8}, 10, 6.1)), 0) << "within what predictions are off";
  EXPECT_EQ(picked_of(two_candidates({8}, 10, 5.9)), 1);
  EXPECT_EQ(picked_of(two_candidates({Dim::symbol("n")}, 10, 1)), 0) << "predicted for one value of the symbol only";
}

TEST(Select, MeasuredTimesCountMoreThanPredictedOnes) {
  const ir::Program program = two_candidates({8}, 10, 9);
  EXPECT_EQ(picked_of(program, {{{8}, times_of(program, {10}, {9.6})}}), 1);
  EXPECT_EQ(picked_of(program, {{{8}, times_of(program, {10}, {9.8})}}), 0) << "noise";
  EXPECT_EQ(picked_of(program, {{{9}, times_of(program, {10}, {1})}}), 0) << "of other extents";
  const ir::Program other = two_candidates({8}, 10, 1);
  EXPECT_EQ(picked_of(other, {{{8}, times_of(other, {5}, {9})}}), 0) << "the prediction was wrong";
}

TEST(Select, AFailedCandidateIsNotTaken) {
  const ir::Program program = two_candidates({8}, 10, 9);
  EXPECT_EQ(picked_of(program, {{{8}, times_of(program, {10}, {0, true})}}), 0);
  EXPECT_EQ(picked_of(program, {{{8}, times_of(program, {0, true}, {12})}}), 1) << "it works, if slowly";
}

TEST(Select, ASymbolicExtentAddsAllMeasuredTimes) {
  const ir::Program program = two_candidates({Dim::symbol("n"), 4}, 10, 9);
  const auto small = times_of(program, {1}, {2}), large = times_of(program, {100}, {50});
  EXPECT_EQ(picked_of(program, {{{1, 4}, small}}), 0);
  EXPECT_EQ(picked_of(program, {{{1, 4}, small}, {{64, 4}, large}}), 1);
  EXPECT_EQ(picked_of(program, {{{1, 4}, small}, {{64, 8}, large}}), 0) << "another constant";
}

TEST(Select, ACandidateMustHaveATimeForEachMeasuredExtent) {
  const ir::Program program = two_candidates({Dim::symbol("n")}, 10, 9);
  TuningData::Times first_only = times_of(program, {10}, {1});
  first_only.erase(candidate_key(program, candidates_of(program)[1]));
  EXPECT_EQ(picked_of(program, {{{1}, times_of(program, {10}, {1})}, {{2}, first_only}}), 0);
}

TEST(Select, AShapeWithAFasterCandidateHasAVariantOfItsOwn) {
  const Target target = named_target("sm_90").value();
  ir::Program program = lowered_program(softmax_text("N, 1000", "N"), target, kAll);
  const ir::Variant lowered = program.slots[0].variants[1];  // for many rows
  ASSERT_GE(lowered.candidates.size(), 3U);
  TuningData tuning;
  const auto& extents = std::get<ir::KernelStep>(lowered.candidates[0].steps[0].v).extents;
  const auto plant = [&](int64_t rows, std::vector<double> us) {
    std::vector<int64_t> values;
    for (const Dim& extent : extents) values.push_back(extent.eval({{"N", rows}}).value());
    for (std::size_t i = 0; i < us.size(); ++i)
      tuning.candidates[candidate_key(program, lowered.candidates[0])][values]
                       [candidate_key(program, lowered.candidates[i])] = {us[i], false};
  };
  plant(8192, {5, 9, 4});
  plant(4096, {500, 300, 450});
  plant(2048, {50, 49, 49.9});  // noise
  const std::size_t before = program.slots[0].variants.size();
  ASSERT_TRUE(select(program, target, tuning).ok());
  const auto& variants = program.slots[0].variants;
  ASSERT_EQ(variants.size(), before + 1);
  const auto taken = [&](int64_t rows) {
    for (const ir::Variant& variant : variants) {
      const auto holds = [&](const Dim& d) { return d.eval({{"N", rows}}).value() >= 0; };
      if (std::all_of(variant.when.begin(), variant.when.end(), holds)) return variant.picked;
    }
    return -1;
  };
  EXPECT_EQ(taken(8192), 2);
  EXPECT_EQ(taken(4096), 1);
  EXPECT_EQ(taken(2048), 1);
  EXPECT_EQ(taken(8191), 1) << "the best in sum";
  const auto fixed = std::find_if(variants.begin(), variants.end(), [](const ir::Variant& v) { return v.picked == 2; });
  const auto own = measured_times(program, *fixed, tuning);
  ASSERT_GE(own.size(), 3U);
  EXPECT_EQ(own[2]->us, 4) << "of that shape alone";
}

}  // namespace
}  // namespace fusec::compiler

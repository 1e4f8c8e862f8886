// SPDX-License-Identifier: Apache-2.0
// Branches of a concat's parts that become one: which do, and that the results have the same bits.
#include <gtest/gtest.h>

#include <cstring>
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
#include "ir/verify/kernel.h"
#include "tests/sanitized.h"

namespace fusec::compiler {
namespace {

// relu(concat(x0, x1, ...) * w) of f16[rows, widths[i]].
std::string concat_text(const std::string& rows, const std::vector<int64_t>& widths) {
  int64_t sum = 0;
  std::string params, parts;
  for (const int64_t width : widths) {
    const std::string name = "%x" + std::to_string(params.empty() ? 0 : sum);
    params += (params.empty() ? "" : ", ") + name + ": f16[" + rows + ", " + std::to_string(width) + "]";
    parts += (parts.empty() ? "" : ", ") + name;
    sum += width;
  }
  const std::string row = "f16[" + std::to_string(sum) + "]";
  const std::string all = "f16[" + rows + ", " + std::to_string(sum) + "]";
  return "graph @main(" + params + ", %w: " + row + ") {\n  %0 = concat " + parts + " {axis = 1}: " + all +
         "\n  %1 = mul %0, %w: " + all + "\n  %2 = relu %1: " + all + "\n  return %2 as \"y\"\n}\n";
}

ir::Program make_program(const std::string& graph_text, const Target& target) {
  ir::Graph graph = ir::parse_graph(graph_text).value();
  EXPECT_TRUE(optimize(graph, target, {}).ok());
  auto program = lower(graph, partition(graph, target, {}).value(), target, {});
  EXPECT_TRUE(program.ok()) << program.status().str();
  return *std::move(program);
}

// The numbers of inputs that the kernel chooses among.
std::vector<size_t> list_choices(const ir::Kernel& kernel) {
  std::vector<size_t> out;
  for_each_stmt(kernel.body, [&](const ir::Stmt& stmt) {
    if (const auto* choose = std::get_if<ir::Choose>(&stmt.v)) out.push_back(choose->among.size());
  });
  return out;
}

Tensor random_memory(const ir::Program& program, const ir::View& view, const std::map<std::string, int64_t>& symbols,
                     uint64_t seed) {
  return *ir::random_tensor(program.allocs[view.alloc].dtype, {view.shape[0].eval(symbols).value()}, seed);
}

// Evaluates the kernel of a step as it is scheduled and as it is printed.
void expect_equal_forms(const ir::Program& program, const ir::KernelStep& step, const ir::Kernel& joined,
                        const std::map<std::string, int64_t>& symbols) {
  const ir::Kernel& kernel = program.kernels[step.kernel];
  std::map<std::string, int64_t> extents;
  for (uint32_t i = 0; i < step.extents.size(); ++i)
    extents[kernel.extents[ir::ExtentId{i}]] = step.extents[i].eval(symbols).value();
  std::vector<Tensor> a, b;
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    a.push_back(random_memory(program, step.args[i], symbols, i + 1));
    b.push_back(random_memory(program, step.args[i], symbols, i + 1));
  }
  const auto scheduled = ir::evaluate(kernel, a, extents), printed = ir::evaluate(joined, b, extents);
  ASSERT_TRUE(scheduled.ok()) << scheduled.status().str();
  ASSERT_TRUE(printed.ok()) << printed.status().str() << "\n" << ir::print(joined);
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(std::memcmp(a[i].data(), b[i].data(), a[i].bytes()), 0) << kernel.buffers[kernel.params[i]].name;
}

// Whether kernels are proven free of races under sanitizers, too. Proofs of many parts take up to minutes there, and
// walk what those of three parts and of ir.KernelRace do.
using Findings = std::vector<std::string>;
enum class Proven { always, not_sanitized };

// The choices of each kernel of the program, all of which are checked.
std::vector<size_t> check(const std::string& graph_text, const std::vector<int64_t>& batches,
                          Proven proven = Proven::not_sanitized) {
  const bool prove = proven == Proven::always || !testing_support::kSanitized;
  const Target target = named_target("sm_90").value();
  const ir::Program program = make_program(graph_text, target);
  std::vector<size_t> choices;
  for (const ir::Slot& slot : program.slots) {
    for (const ir::Variant& variant : slot.variants) {
      if (testing_support::kSanitized && &variant != &slot.variants.back()) continue;  // each takes a proof
      const auto& step = std::get<ir::KernelStep>(variant.candidates.at(0).steps.at(0).v);
      const ir::Kernel joined = lower_for_writer(program.kernels[step.kernel], target).value();
      choices = list_choices(joined);
      // Threads of the scheduled kernel are proven not to race. The proof does not see that parts of known sizes have
      // blocks of their own, nor which blocks a choice runs in.
      for (const std::string& finding : prove ? ir::findings(program.kernels[step.kernel]) : Findings())
        EXPECT_TRUE(finding.starts_with("iterations of grid")) << finding;
      for (const std::string& finding : prove ? ir::findings(joined) : Findings())
        EXPECT_TRUE(finding.starts_with("iterations of ")) << finding << "\n" << ir::print(joined);
      for (const int64_t batch : batches) expect_equal_forms(program, step, joined, {{"N", batch}});
    }
  }
  return choices;
}

using Choices = std::vector<size_t>;

TEST(JoinBranches, OfEqualParts) { EXPECT_EQ(check(concat_text("7*N", {32, 32, 32, 32, 32}), {1, 2, 3}), Choices{5}); }

TEST(JoinBranches, BehindOneThatDiffers) {
  EXPECT_EQ(check(concat_text("3*N", {64, 32, 32, 32, 32}), {1, 2}), Choices{4});
}

TEST(JoinBranches, InFrontOfOneThatDiffers) {
  EXPECT_EQ(check(concat_text("3*N", {32, 32, 32, 32, 64}), {1, 2}), Choices{4});
}

TEST(JoinBranches, TwoFamilies) {
  EXPECT_EQ(check(concat_text("N", {16, 16, 16, 16, 48, 48, 48, 48}), {1, 5}), (Choices{4, 4}));
}

TEST(JoinBranches, OfKnownShapes) { EXPECT_EQ(check(concat_text("37", {32, 32, 32, 32, 32}), {1}), Choices{5}); }

TEST(JoinBranches, OfOddWidths) { EXPECT_EQ(check(concat_text("N", {5, 5, 5, 5, 5, 5}), {1, 3, 70}), Choices{6}); }

TEST(JoinBranches, ThreePartsAreWrittenOut) {
  EXPECT_EQ(check(concat_text("7*N", {32, 32, 32}), {1, 2}, Proven::always), Choices{});
}

// One nest stores what is read once to both places.
TEST(JoinBranches, AnInputThatComesTwice) {
  std::string text = concat_text("7*N", {32, 32, 32, 32, 32, 32});
  const size_t at = text.find("concat %x0, %x32");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 16, "concat %x0, %x0");
  EXPECT_EQ(check(text, {1, 2}), Choices{4});
}

// What a kernel of parts lacks that one branch could serve.
constexpr const char* kParts =
    R"(kernel @parts(%a: in f32[n], %b: in f32[n], %c: in f32[n], %d: in f32[n], %y: out f32[4*n]) {
  grid i in 4*n threads(1) {
    if (min(i + 1, n - i) - 1) {
      v0: f32 = load a[i]
      store y[i], v0
    }
    if (min(i - n + 1, 2*n - i) - 1) {
      v1: f32 = load b[i - n]
      store y[i], v1
    }
    if (min(i - 2*n + 1, 3*n - i) - 1) {
      v2: f32 = load c[i - 2*n]
      store y[i], v2
    }
    if (min(i - 3*n + 1, 4*n - i) - 1) {
      v3: f32 = load d[i - 3*n]
      store y[i], v3
    }
  }
}
)";

Choices choices_with(const std::string& from, const std::string& to) {
  std::string text = kParts;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  ir::Kernel kernel = ir::parse_kernel(text).value();
  join_branches(kernel);
  EXPECT_TRUE(ir::verify(kernel).ok()) << ir::verify(kernel).str() << "\n" << ir::print(kernel);
  return list_choices(kernel);
}

TEST(JoinBranches, WhatDiffersKeepsItsBranch) {
  EXPECT_EQ(choices_with("v3", "v3"), Choices{4});
  EXPECT_EQ(choices_with("load d[i - 3*n]", "load d[4*n - 1 - i]"), Choices{}) << "another order";
  EXPECT_EQ(choices_with("store y[i], v3", "store y[7*n - 1 - i], v3"), Choices{});
  EXPECT_EQ(choices_with("%d: in f32[n]", "%d: in f32[n + 1]"), Choices{}) << "another size";
  EXPECT_EQ(choices_with("%d: in f32[n]", "%d: in f32[n] align 16"), Choices{});
  EXPECT_EQ(choices_with("v3: f32 = load d[i - 3*n]\n", "v3: f32 = load d[i - 3*n]\n      v4: f32 = neg v3\n"),
            Choices{});
  EXPECT_EQ(choices_with("load c[i - 2*n]", "load c[i - 2*n] guard(0) else 1"), Choices{});
  EXPECT_EQ(choices_with("4*n - i) - 1", "4*n - 1 - i) - 1"), Choices{}) << "fewer blocks";
  EXPECT_EQ(choices_with("i - 3*n + 1, 4*n - i", "i - 3*n - 1, 4*n - i"), Choices{}) << "a gap";
}

TEST(JoinBranches, PartsThatShareMemoryKeepTheirBranches) {
  std::string text = kParts;
  text.insert(text.find("    if"), "    alloc s: shared f32[1]\n");
  for (int i = 0; i < 4; ++i) {
    const std::string value = "v" + std::to_string(i), again = "v" + std::to_string(i + 4);
    const std::string store = "store y[i], " + value;
    text.replace(text.find(store), store.size(),
                 "store s[0], " + value + "\n      " + again + ": f32 = load s[0]\n      store y[i], " + again);
  }
  ir::Kernel kernel = ir::parse_kernel(text).value();
  join_branches(kernel);
  EXPECT_EQ(list_choices(kernel), Choices{});
}

}  // namespace
}  // namespace fusec::compiler

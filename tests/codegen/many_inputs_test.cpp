// SPDX-License-Identifier: Apache-2.0
// A sum of 120 inputs is one kernel of 121 parameters, which functions of every target take.
#include <gtest/gtest.h>

#include "compiler/lower/lower.h"
#include "compiler/partition/partition.h"
#include "compiler/passes/pipeline.h"
#include "ir/text/graph_text.h"
#include "ir/text/kernel_text.h"
#include "ir/verify/kernel.h"
#include "tests/codegen/cuda_emulation_run.h"

namespace fusec::codegen_test {
namespace {

constexpr int kInputs = 120;

std::string make_sum(const std::string& type) {
  std::string inputs, nodes, sum = "%x0";
  for (int i = 0; i < kInputs; ++i) inputs += (i ? ", %x" : "%x") + std::to_string(i) + ": " + type;
  for (int i = 1; i < kInputs; ++i) {
    const std::string next = "%s" + std::to_string(i);
    nodes += "  " + next + " = add " + sum + ", %x" + std::to_string(i) + ": " + type + "\n";
    sum = next;
  }
  return "graph @main(" + inputs + ") {\n" + nodes + "  return " + sum + " as \"y\"\n}\n";
}

EmulationCase lower_sum(const std::string& type, const char* target_name) {
  const Target target = *named_target(target_name);
  ir::Graph graph = *ir::parse_graph(make_sum(type));
  EXPECT_TRUE(compiler::optimize(graph, target, {}).ok());
  const compiler::Partition parts = *compiler::partition(graph, target, {});
  const ir::Program program = *compiler::lower(graph, parts, target, {});
  EXPECT_EQ(program.kernels.size(), 1U);
  const ir::Kernel& kernel = program.kernels[ir::KernelId{0}];
  EXPECT_EQ(kernel.params.size(), static_cast<std::size_t>(kInputs + 1));
  EXPECT_TRUE(ir::verify(kernel).ok()) << ir::verify(kernel).str();
  const auto& step = std::get<ir::KernelStep>(program.slots[0].variants[0].candidates[0].steps[0].v);
  Extents extents;
  for (uint32_t i = 0; i < step.extents.size(); ++i) extents[kernel.extents[ir::ExtentId{i}]] = step.extents[i].value();
  return {ir::print(kernel), {extents}, {}};
}

TEST(ManyInputs, ASumOfThemRunsOnTheCpu) {
  for (const char* type : {"f32[3, 1001]", "bf16[3, 1001]"}) {
    const EmulationCase c = lower_sum(type, "x86-64-v3");
    expect_like_evaluator(c.text, c.extents[0]);
  }
}

TEST(ManyInputs, ASumOfThemRunsUnderTheEmulation) {
  expect_cuda_like_evaluator({lower_sum("f32[3, 1001]", "sm_90"), lower_sum("bf16[3, 1001]", "sm_90")});
}

}  // namespace
}  // namespace fusec::codegen_test

// SPDX-License-Identifier: Apache-2.0
// Wide models become kernels of bounded size, and as many as their width asks for.
#include "compiler/partition/limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "compiler/lower/lower.h"
#include "compiler/partition/groups.h"
#include "compiler/partition/partition.h"
#include "compiler/passes/pipeline.h"
#include "fusec/target.h"
#include "ir/text/graph_text.h"
#include "tests/sanitized.h"

namespace fusec::compiler {
namespace {

struct Compiled {
  ir::Graph graph;
  Partition partition;
  ir::Program program;
};

Compiled compiled(const std::string& text, const char* target_name = "x86-64-v3") {
  const Target target = *named_target(target_name);
  Compiled c{*ir::parse_graph(text), {}, {}};
  EXPECT_TRUE(optimize(c.graph, target, {}).ok());
  Result<Partition> parts = partition(c.graph, target, {});
  EXPECT_TRUE(parts.ok()) << parts.status().str();
  c.partition = *std::move(parts);
  Result<ir::Program> program = lower(c.graph, c.partition, target, {});
  EXPECT_TRUE(program.ok()) << program.status().str();
  c.program = *std::move(program);
  return c;
}

std::string listed(int n, const std::function<std::string(int)>& item) {
  std::string text;
  for (int i = 0; i < n; ++i) text += (i ? ", " : "") + item(i);
  return text;
}

// A concat of n inputs; `tail` may go on with %c.
std::string make_concat(int n, const std::string& tail) {
  const std::string inputs = listed(n, [](int i) { return "%x" + std::to_string(i) + ": f32[8, 16]"; });
  const std::string operands = listed(n, [](int i) { return "%x" + std::to_string(i); });
  return "graph @main(" + inputs + ") {\n  %c = concat " + operands + " {axis = 1}: f32[8, " + std::to_string(16 * n) +
         "]\n" + tail + "}\n";
}

// %x through n times the line of `step`, which is given the names of its result and of its operand.
std::string make_chain(int n, const std::function<std::string(const std::string&, const std::string&)>& step) {
  std::string text = "graph @main(%x: f32[4096], %c: bool[4096]) {\n";
  for (int i = 0; i < n; ++i)
    text += "  " + step("%a" + std::to_string(i), i ? "%a" + std::to_string(i - 1) : "%x") + "\n";
  return text + "  return %a" + std::to_string(n - 1) + " as \"y\"\n}\n";
}

int sum_costs(const ir::Graph& graph, const Region& region) {
  int cost = 0;
  for (ir::NodeId id : region.nodes)
    if (graph.nodes[id].op.is_scalar()) cost += ir::info(graph.nodes[id].op.scalar()).cost;
  return cost;
}

void expect_bounds(const Compiled& c) {
  for (const Region& region : c.partition.regions) {
    EXPECT_LE(region.nodes.size(), kMaxNodes);
    EXPECT_LE(sum_costs(c.graph, region), kMaxCost);
    EXPECT_LE(region.outputs.size(), kMaxOutputs);
    for (ir::NodeId id : region.nodes) EXPECT_LE(c.graph.nodes[id].inputs.size(), kMaxConcatOperands);
  }
}

TEST(Limits, ALongConcatIsKernelsThatWriteIntoOneTensor) {
  for (const char* target : {"x86-64-v3", "sm_90"}) {
    for (const int n : {64, 65, testing_support::many_or(750, 130), testing_support::many_or(3000, 200)}) {
      const Compiled c = compiled(make_concat(n, "  return %c as \"y\"\n"), target);
      expect_bounds(c);
      const auto most = static_cast<int>(kMaxConcatOperands);
      EXPECT_EQ(c.partition.regions.size(), static_cast<std::size_t>((n + most - 1) / most)) << n;
      EXPECT_LE(c.program.kernels.size(), 2U) << "parts of two lengths";
      for (const Region& region : c.partition.regions) {
        EXPECT_EQ(c.partition.storage.at(region.outputs[0]).base, c.graph.outputs[0]) << "nothing is moved twice";
      }
    }
  }
}

TEST(Limits, AConcatUpToTheLimitIsOneKernelWithItsReader) {
  const std::string tail = "  %r = relu %c: f32[8, 1024]\n  return %r as \"y\"\n";
  EXPECT_EQ(compiled(make_concat(64, tail)).partition.regions.size(), 1U);
}

TEST(Limits, ALongConcatIsStoredForItsReaders) {
  const std::string tail =
      "  %r = relu %c: f32[8, 4800]\n  %s = reduce_sum %c {axes = [1]}: f32[8]\n  return %r as \"y\", %s as \"z\", %c "
      "as \"c\"\n";
  const Compiled c = compiled(make_concat(300, tail));
  expect_bounds(c);
  EXPECT_LE(c.partition.regions.size(), 7U);
}

TEST(Limits, AnElementOfASumChoosesFromFewOperands) {
  const std::string tail = "  %s = reduce_sum %c {axes = [1]}: f32[8]\n  return %s as \"y\"\n";
  const auto few = static_cast<int>(kMaxSelected);
  EXPECT_EQ(compiled(make_concat(few, tail)).partition.regions.size(), 1U);
  EXPECT_EQ(compiled(make_concat(few + 1, tail)).partition.regions.size(), 2U);
}

TEST(Limits, ChainsGrowByKernelsAndNotInThem) {
  const auto wheres = [](const std::string& to, const std::string& from) {
    return to + " = where %c, %x, " + from + ": f32[4096]";
  };
  const auto adds = [](const std::string& to, const std::string& from) {
    return to + " = add %x, " + from + ": f32[4096]";
  };
  const auto mishes = [](const std::string& to, const std::string& from) {
    return to + " = mish " + from + ": f32[4096]";
  };
  for (const auto& [step, most] :
       {std::pair(std::function(wheres), std::size_t{13}), std::pair(std::function(adds), std::size_t{13}),
        std::pair(std::function(mishes), std::size_t{120})}) {
    const Compiled c = compiled(make_chain(3000, step));
    expect_bounds(c);
    EXPECT_LE(c.partition.regions.size(), most);
  }
}

// n nodes: residual blocks of a product, a norm and a gate.
std::string make_blocks(int n) {
  const std::string t = ": f32[64, 128]\n", rows = ": f32[64]\n", columns = " {shape = [64, 1]}: f32[64, 1]\n";
  std::string text = "graph @main(%x: f32[64, 128], %w: f32[128, 128]) {\n", skip = "%x", from = "%x";
  const auto name = [](int i) { return "%a" + std::to_string(i); };
  for (int i = 0; i + 11 <= n; i += 11) {
    const auto line = [&](int at, const std::string& what) { text += "  " + name(i + at) + " = " + what; };
    line(0, "matmul " + from + ", %w {transpose_a = 0, transpose_b = 0}" + t);
    line(1, "add " + name(i) + ", " + skip + t);
    line(2, "reduce_mean " + name(i + 1) + " {axes = [1]}" + rows);
    line(3, "reshape " + name(i + 2) + columns);
    line(4, "sub " + name(i + 1) + ", " + name(i + 3) + t);
    line(5, "mul " + name(i + 4) + ", " + name(i + 4) + t);
    line(6, "reduce_mean " + name(i + 5) + " {axes = [1]}" + rows);
    line(7, "reshape " + name(i + 6) + columns);
    line(8, "div " + name(i + 4) + ", " + name(i + 7) + t);
    line(9, "sigmoid " + name(i + 8) + t);
    line(10, "mul " + name(i + 9) + ", " + name(i + 8) + t);
    skip = name(i + 1);
    from = name(i + 10);
  }
  return text + "  return " + from + " as \"y\"\n}\n";
}

int64_t count_work(const std::string& text, int nodes) {
  const Target target = *named_target("x86-64-v3");
  const ir::Graph graph = *ir::parse_graph(text);
  EXPECT_NEAR(static_cast<double>(graph.order.size()), nodes, 11);
  Groups groups(graph);
  form_anchors(groups, target, {});
  choose_concat_views(groups);
  fuse_regions(groups, target, {});
  EXPECT_GT(groups.work(), nodes / 2);
  return groups.work();
}

// The work that could grow with the square of the graph: searches for cycles, and what a group spans.
TEST(Limits, WorkOfAPartitionGrowsWithTheGraphUpToAHundredThousandNodes) {
  const auto adds = [](const std::string& to, const std::string& from) {
    return to + " = add %x, " + from + ": f32[4096]";
  };
  const int few = testing_support::many_or(10'000, 2'000), many = 10 * few;
  EXPECT_LE(count_work(make_blocks(many), many), 11 * count_work(make_blocks(few), few));
  EXPECT_LE(count_work(make_chain(many, adds), many), 11 * count_work(make_chain(few, adds), few));
  EXPECT_LE(count_work(make_blocks(many), many), int64_t{40} * many);
}

// n rows of %x, each an output.
std::string make_split(int n) {
  std::string text = "graph @main(%x: f32[" + std::to_string(n) + ", 8]) {\n";
  for (int i = 0; i < n; ++i) {
    text += "  %" + std::to_string(i) + " = slice %x {starts = [" + std::to_string(i) +
            ", 0], sizes = [1, 8], steps = [1, 1]}: f32[1, 8]\n";
  }
  return text + "  return " +
         listed(n, [](int i) { return "%" + std::to_string(i) + " as \"y" + std::to_string(i) + "\""; }) + "\n}\n";
}

TEST(Limits, ASplitIsOneKernelThatIsToldWhereItsPartBegins) {
  for (const char* target : {"x86-64-v3", "sm_90"}) {
    for (const int n : {17, testing_support::many_or(3000, 200)}) {
      const Compiled c = compiled(make_split(n), target);
      EXPECT_EQ(c.program.slots.size(), static_cast<std::size_t>(n));
      EXPECT_LE(c.program.kernels.size(), 2U) << "the first may be in place";
      const auto& last = std::get<ir::KernelStep>(c.program.slots.back().variants[0].candidates[0].steps[0].v);
      EXPECT_TRUE(last.args[0].offset.is(8 * (n - 1))) << last.args[0].offset.str();
    }
    EXPECT_EQ(compiled(make_split(16), target).program.kernels.size(), 16U);
  }
}

TEST(Limits, TimeIsAskedForInEachStage) {
  const Target target = *named_target("x86-64-v3");
  const std::string text = make_concat(2, "  return %c as \"y\"\n");
  const ir::Deadline over(0.0), never, far(1e9);
  ir::Graph graph = *ir::parse_graph(text);
  const auto expect_over = [](const Status& status, const std::string& stage) {
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_NE(status.message().find("limit of 0 s and was ended in stage " + stage), std::string::npos) << status.str();
  };
  expect_over(optimize(graph, target, {}, nullptr, nullptr, over), "optimize");
  EXPECT_TRUE(optimize(graph, target, {}, nullptr, nullptr, far).ok());
  const Partition parts = *partition(graph, target, {});
  expect_over(lower(graph, parts, target, {}, over).status(), "lower");
  EXPECT_TRUE(lower(graph, parts, target, {}, never).ok());
}

}  // namespace
}  // namespace fusec::compiler

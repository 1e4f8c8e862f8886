// SPDX-License-Identifier: Apache-2.0
// Blocks that repeat are scheduled once, each on its own values; a block that differs in anything is not one of them.
#include <gtest/gtest.h>

#include "compiler/lower/lower.h"
#include "compiler/lower/nest/nest.h"
#include "ir/ops/random.h"

namespace fusec::compiler {
namespace {

struct Block {
  double factor;
  int64_t width = 32;
};

// h = exp(h * weights) * factor, block after block.
ir::Graph make_graph(const std::vector<Block>& blocks) {
  ir::Graph g;
  ir::ValueId h = add_input(g, "x", {DType::f32, {16, 32}});
  int64_t from = 32;
  for (const Block& block : blocks) {
    const ir::ValueId weights = add_constant(g, *ir::random_tensor(DType::f32, {from, block.width}, 1));
    const ir::ValueId factor = add_scalar_constant(g, DType::f32, block.factor);
    h = add_node(g, ir::ScalarOp::exp,
                 {add_node(g, ir::TensorOp::matmul, {h, weights}, {{"transpose_a", 0}, {"transpose_b", 0}})});
    h = add_node(g, ir::ScalarOp::mul, {h, factor});
    from = block.width;
  }
  add_output(g, h, "y");
  return g;
}

std::vector<std::string> collect_keys(const ir::Graph& g, const Partition& parts) {
  std::vector<std::string> keys;
  for (const Region& region : parts.regions)
    if (region.kind == RegionKind::kernel) keys.push_back(region_key(g, parts.storage, region).text);
  return keys;
}

TEST(RegionKey, SaysWhatABlockIsAndNotWhereItIs) {
  const ir::Graph g = make_graph({{0.5}, {0.5}, {0.25}, {0.5, 48}, {0.5}, {0.5}});
  const auto parts = partition(g, named_target("sm_90").value(), {});
  ASSERT_TRUE(parts.ok()) << parts.status().str();
  const auto keys = collect_keys(g, *parts);
  ASSERT_EQ(keys.size(), 6U);
  EXPECT_EQ(keys[0], keys[1]);
  EXPECT_EQ(keys[0], keys[4]);
  EXPECT_NE(keys[0], keys[2]) << "another factor";
  EXPECT_NE(keys[0], keys[3]) << "another shape";
  EXPECT_NE(keys[0], keys[5]) << "a result of the model";
}

TEST(RegionKey, EqualBlocksShareAKernelOnTheirOwnValues) {
  const ir::Graph g = make_graph({{0.5}, {0.5}, {0.25}});
  const Target target = named_target("sm_90").value();
  const auto parts = partition(g, target, {});
  ASSERT_TRUE(parts.ok()) << parts.status().str();
  const auto program = lower(g, *parts, target, {});
  ASSERT_TRUE(program.ok()) << program.status().str();
  std::vector<const ir::KernelStep*> kernels;
  std::vector<ir::AllocId> made;  // by the library step before each
  for (const ir::Slot& slot : program->slots) {
    for (const ir::Step& step : slot.variants.at(0).candidates.at(0).steps) {
      if (const auto* library = std::get_if<ir::LibraryStep>(&step.v)) made.push_back(library->args.back().alloc);
      if (const auto* kernel = std::get_if<ir::KernelStep>(&step.v)) kernels.push_back(kernel);
    }
  }
  ASSERT_EQ(kernels.size(), 3U);
  ASSERT_EQ(made.size(), 3U);
  EXPECT_EQ(kernels[0]->kernel, kernels[1]->kernel);
  EXPECT_NE(kernels[0]->kernel, kernels[2]->kernel);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(kernels[i]->args.at(0).alloc, made[i]) << "block " << i;
}

}  // namespace
}  // namespace fusec::compiler

// SPDX-License-Identifier: Apache-2.0
// Convolutions of few channels as convolutions of blocks give what they gave.
#include "tests/compiler/convolution_pass.h"

namespace fusec::compiler {
namespace {

const ir::Node& conv_of(const ir::Graph& g) {
  for (const ir::NodeId id : g.order)
    if (g.nodes[id].op == ir::TensorOp::conv) return g.nodes[id];
  ADD_FAILURE() << "no convolution: " << ir::print(g);
  return g.nodes[g.order[0]];
}

// Channels are as many as tensor cores take. With many filters, windows move by one.
void blocked(Conv c) {
  for (const int64_t filters : {c.filters, c.filters + 32}) {
    c.filters = filters;
    const ir::Graph g = expect_same("space_to_depth", c);
    const ir::Node& conv = conv_of(g);
    EXPECT_EQ(g.type(conv.inputs[1]).shape[1].value() % 8, 0) << ir::print(g);
    if (filters < 32) continue;
    EXPECT_EQ(conv.attrs.ints("strides"), std::vector<int64_t>(c.strides.size(), 1)) << ir::print(g);
  }
}

TEST(SpaceToDepth, GivesWhatTheConvolutionGives) {
  for (const int64_t kernel : {1, 2, 3, 4, 7}) {
    for (const int64_t stride : {1, 2, 3, 4}) {
      if (kernel == 1 && stride == 1) continue;  // a product already
      for (const auto& pads : std::vector<std::vector<int64_t>>{
               {0, 0, 0, 0}, {1, 2, 0, 3}, {4, 0, 5, 1}, {kernel / 2, kernel / 2, kernel / 2, kernel / 2}}) {
        for (const int64_t extent : {1, 4, 13}) {
          if (extent + pads[0] + pads[2] < kernel || extent + 2 + pads[1] + pads[3] < kernel) continue;
          blocked({{extent, extent + 2}, {kernel, kernel}, {stride, stride}, pads, {1, 1}, 3, true, DType::f16, 5});
        }
      }
    }
  }
}

TEST(SpaceToDepth, TypesRanksAndBias) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    blocked({{6, 5}, {3, 3}, {2, 1}, {1, 1, 1, 1}, {1, 1}, 1, false, dtype, 2});
    blocked({{9}, {4}, {2}, {1, 2}, {1}, 7, true, dtype, 3});
    blocked({{4, 3, 5}, {3, 2, 3}, {1, 1, 2}, {1, 0, 1, 1, 1, 1}, {1, 1, 1}, 2, true, dtype, 4});
  }
}

TEST(SpaceToDepth, PatchesAreProducts) {
  const ir::Graph g =
      expect_same("space_to_depth", {{8, 12}, {4, 4}, {4, 4}, {0, 0, 0, 0}, {1, 1}, 3, true, DType::f16, 6});
  const Shape& filter = g.type(conv_of(g).inputs[1]).shape;
  EXPECT_EQ(filter, (Shape{6, 48, 1, 1}));
}

TEST(SpaceToDepth, LeavesOthers) {
  const Conv usual{{6, 6}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 3, true, DType::f16, 4};
  const auto changes = [](const Conv& c, const char* target, Numerics numerics = Numerics::precise) {
    ir::Graph g = make_graph(c);
    Options options;
    options.numerics = numerics;
    return run_on(g, "space_to_depth", *named_target(target), options);
  };
  EXPECT_TRUE(changes(usual, "sm_75"));
  EXPECT_FALSE(changes(usual, "x86-64-v3")) << "oneDNN's are good";
  EXPECT_FALSE(changes(usual, "sm_75", Numerics::exact)) << "an infinity beside a window would become NaN";
  Conv other = usual;
  other.dtype = DType::f32;
  EXPECT_FALSE(changes(other, "sm_75")) << "no tensor cores";
  other = usual;
  other.channels = 8;
  EXPECT_FALSE(changes(other, "sm_75")) << "enough channels";
  other = usual;
  other.dilations = {2, 1};
  EXPECT_FALSE(changes(other, "sm_75")) << "a block is no part of such a window";
  other = usual;
  other.kernel = {1, 1}, other.strides = {1, 1};
  EXPECT_FALSE(changes(other, "sm_75")) << "a product already";
  other = usual;
  other.filters = 0;
  EXPECT_FALSE(changes(other, "sm_75")) << "depthwise";
}

}  // namespace
}  // namespace fusec::compiler

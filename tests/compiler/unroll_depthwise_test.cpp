// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions as sums of moved inputs give what the convolution gives.
#include "tests/compiler/convolution_pass.h"

namespace fusec::compiler {
namespace {

bool has_conv(const ir::Graph& g) {
  for (const ir::NodeId id : g.order) {
    if (g.nodes[id].op == ir::TensorOp::conv) return true;
  }
  return false;
}

void unrolled(const Conv& c) { EXPECT_FALSE(has_conv(expect_same("unroll_depthwise", c))); }

TEST(UnrollDepthwise, GivesWhatTheConvolutionGives) {
  for (const int64_t kernel : {1, 2, 3, 5, 7}) {
    for (const int64_t stride : {1, 2, 3}) {
      for (const int64_t dilation : {1, 2}) {
        for (const auto& pads : std::vector<std::vector<int64_t>>{
                 {0, 0, 0, 0}, {1, 2, 0, 3}, {kernel / 2, kernel / 2, kernel / 2, kernel / 2}}) {
          for (const int64_t extent : {1, 4, 13}) {
            const int64_t dilated_extent = dilation * (kernel - 1) + 1;
            if (extent + pads[0] + pads[2] < dilated_extent || extent + 2 + pads[1] + pads[3] < dilated_extent)
              continue;
            unrolled({{extent, extent + 2}, {kernel, kernel}, {stride, stride}, pads, {dilation, dilation}});
          }
        }
      }
    }
  }
}

TEST(UnrollDepthwise, TypesRanksAndBias) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    unrolled({{6, 5}, {3, 3}, {2, 1}, {1, 1, 1, 1}, {1, 1}, 8, false, dtype});
    unrolled({{9}, {4}, {2}, {1, 2}, {2}, 5, true, dtype});
    unrolled({{4, 3, 5}, {3, 2, 3}, {1, 1, 2}, {1, 0, 1, 1, 1, 1}, {1, 1, 1}, 2, true, dtype});
  }
}

TEST(UnrollDepthwise, LeavesOthers) {
  const Conv usual{{6, 6}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
  ir::Graph g = make_graph(usual);
  EXPECT_FALSE(run_on(g, "unroll_depthwise", *named_target("x86-64-v3"))) << "oneDNN's are good";
  Conv large = usual;
  large.in = {12, 12};
  large.kernel = {13, 13};
  large.pads = {6, 6, 6, 6};
  g = make_graph(large);
  EXPECT_FALSE(run_on(g, "unroll_depthwise", *named_target("sm_90"))) << "more than 121 taps";
  g = make_graph(usual);
  for (ir::Node& node : g.nodes) {
    if (node.op == ir::TensorOp::conv) node.attrs.set("layout", std::string("first"));
  }
  const Options options;
  EXPECT_FALSE(*run_pass(*find_pass("unroll_depthwise"), g, {*named_target("sm_90"), options})) << "channels first";
}

}  // namespace
}  // namespace fusec::compiler

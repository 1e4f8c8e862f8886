// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions as sums of moved inputs give what the convolution gives.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/passes/pipeline.h"
#include "ir/eval/graph.h"
#include "ir/ops/cast.h"
#include "ir/ops/random.h"
#include "ir/text/graph_text.h"
#include "ir/verify/graph.h"

namespace fusec::compiler {
namespace {

struct Conv {
  std::vector<int64_t> in, kernel, strides, pads, dilations;
  int64_t channels = 3;
  bool bias = true;
  DType dtype = DType::f32;
};

ir::Graph make_graph(const Conv& c) {
  ir::Graph g;
  Shape shape{Dim::symbol("N")};
  for (const int64_t extent : c.in) shape.push_back(extent);
  shape.push_back(c.channels);
  const ir::ValueId x = add_input(g, "x", {c.dtype, shape});
  std::vector<int64_t> filter{c.channels, 1};
  filter.insert(filter.end(), c.kernel.begin(), c.kernel.end());
  std::vector<ir::ValueId> inputs{x, add_constant(g, *ir::random_tensor(c.dtype, filter, 1))};
  if (c.bias) inputs.push_back(add_constant(g, *ir::random_tensor(c.dtype, {c.channels}, 2)));
  const ir::ValueId y = add_node(g, ir::TensorOp::conv, inputs,
                                 {{"strides", c.strides},
                                  {"pads", c.pads},
                                  {"dilations", c.dilations},
                                  {"groups", c.channels},
                                  {"layout", std::string("last")}});
  add_output(g, y, "y");
  g.symbols = {"N"};
  return g;
}

bool run_on(ir::Graph& g, const Target& target, const Options& options = {}) {
  const Result<bool> changed = run_pass(*find_pass("unroll_depthwise"), g, {target, options});
  EXPECT_TRUE(changed.ok()) << changed.status().str();
  EXPECT_TRUE(verify(g, ir::GraphForm::optimized).ok());
  return *changed;
}

bool has_conv(const ir::Graph& g) {
  for (const ir::NodeId id : g.order) {
    if (g.nodes[id].op == ir::TensorOp::conv) return true;
  }
  return false;
}

// One unit in the last place of 16-bit types, which both sides round to once; a few of f32, whose sums differ in order.
double tolerance(DType dtype) { return dtype == DType::f32 ? 2e-6 : dtype == DType::f16 ? 0x1p-10 : 0x1p-7; }

void expect_same(const Conv& c) {
  const ir::Graph before = make_graph(c);
  ir::Graph after = before;
  ASSERT_TRUE(run_on(after, *named_target("sm_90")));
  EXPECT_FALSE(has_conv(compact(after)));
  std::vector<int64_t> shape{2};
  shape.insert(shape.end(), c.in.begin(), c.in.end());
  shape.push_back(c.channels);
  const std::vector<Tensor> inputs{*ir::random_tensor(c.dtype, shape, 3)};
  const auto want = ir::evaluate(before, inputs), got = ir::evaluate(after, inputs);
  ASSERT_TRUE(want.ok() && got.ok()) << want.status().str() << got.status().str();
  ASSERT_EQ((*want)[0].shape(), (*got)[0].shape());
  for (int64_t i = 0; i < (*want)[0].num_elements(); ++i) {
    const auto at = [&](const Tensor& t) {
      return ir::load_double(c.dtype, t.as<char>() + i * static_cast<int64_t>(size_of(c.dtype)));
    };
    const double w = at((*want)[0]);
    EXPECT_NEAR(at((*got)[0]), w, tolerance(c.dtype) * (std::abs(w) + 1)) << i << "\n" << ir::print(before);
  }
}

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
            expect_same({{extent, extent + 2}, {kernel, kernel}, {stride, stride}, pads, {dilation, dilation}});
          }
        }
      }
    }
  }
}

TEST(UnrollDepthwise, TypesRanksAndBias) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    expect_same({{6, 5}, {3, 3}, {2, 1}, {1, 1, 1, 1}, {1, 1}, 8, false, dtype});
    expect_same({{9}, {4}, {2}, {1, 2}, {2}, 5, true, dtype});
    expect_same({{4, 3, 5}, {3, 2, 3}, {1, 1, 2}, {1, 0, 1, 1, 1, 1}, {1, 1, 1}, 2, true, dtype});
  }
}

TEST(UnrollDepthwise, LeavesOthers) {
  const Conv usual{{6, 6}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
  ir::Graph g = make_graph(usual);
  EXPECT_FALSE(run_on(g, *named_target("x86-64-v3"))) << "oneDNN's are good";
  Conv large = usual;
  large.in = {12, 12};
  large.kernel = {9, 9};
  g = make_graph(large);
  EXPECT_FALSE(run_on(g, *named_target("sm_90"))) << "more than 49 taps";
  g = make_graph(usual);
  for (ir::Node& node : g.nodes) {
    if (node.op == ir::TensorOp::conv) node.attrs.set("layout", std::string("first"));
  }
  const Options options;
  EXPECT_FALSE(*run_pass(*find_pass("unroll_depthwise"), g, {*named_target("sm_90"), options})) << "channels first";
}

}  // namespace
}  // namespace fusec::compiler

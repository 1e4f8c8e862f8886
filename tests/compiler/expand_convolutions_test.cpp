// SPDX-License-Identifier: Apache-2.0
// Convolutions that are written out give what the convolutions give.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compiler/passes/pipeline.h"
#include "ir/eval/graph.h"
#include "ir/ops/cast.h"
#include "ir/ops/random.h"
#include "ir/text/graph_text.h"
#include "ir/verify/graph.h"

namespace fusec::compiler {
namespace {

using ir::TensorOp;
using Ints = std::vector<int64_t>;

struct Conv {
  Ints image, window, strides, pads, dilations;
  int64_t groups = 1, channels = 4, filters = 6;
  DType dtype = DType::f32;
  bool last = true, bias = true, symbolic = false;
};

ir::Graph make_graph(const Conv& c) {
  ir::Graph g;
  g.symbols = {"N"};
  Shape shape{Dim::symbol("N")};
  if (!c.last) shape.push_back(c.channels);
  for (const int64_t extent : c.image) shape.push_back(extent);
  if (c.last) shape.push_back(c.channels);
  if (c.symbolic) {
    shape[c.last ? 1 : 2] = Dim::symbol("H");
    g.symbols.push_back("H");
  }
  Shape filter{c.filters, c.channels / c.groups};
  for (const int64_t extent : c.window) filter.push_back(extent);
  std::vector<ir::ValueId> inputs{add_input(g, "x", {c.dtype, shape}), add_input(g, "w", {c.dtype, filter})};
  if (c.bias) inputs.push_back(add_input(g, "b", {c.dtype, {c.filters}}));
  const ir::Attrs attrs{{"strides", c.strides},
                        {"pads", c.pads},
                        {"dilations", c.dilations},
                        {"groups", c.groups},
                        {"layout", std::string(c.last ? "last" : "first")}};
  add_output(g, add_node(g, TensorOp::conv, std::move(inputs), attrs), "y");
  return g;
}

bool has(const ir::Graph& g, TensorOp op) {
  return std::any_of(g.order.begin(), g.order.end(), [&](ir::NodeId id) { return g.nodes[id].op == op; });
}

// One unit in the last place of 16-bit types, which both sides round to once; of others a few, whose sums differ in
// order.
double tolerance(DType dtype) {
  return dtype == DType::f64 ? 1e-14 : dtype == DType::f32 ? 4e-6 : dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
}

void expect_same(const Conv& c) {
  const ir::Graph before = make_graph(c);
  ir::Graph after = before;
  Options options;
  options.use_library = false;
  for (const char* name : {"expand_convolutions", "expand_products"})
    ASSERT_TRUE(run_pass(*find_pass(name), after, {*named_target("sm_90"), options}).ok());
  after = compact(after);
  ASSERT_TRUE(verify(after, ir::GraphForm::optimized).ok()) << ir::print(after);
  ASSERT_FALSE(has(after, TensorOp::conv) || has(after, TensorOp::matmul)) << ir::print(after);
  Ints image{2};
  if (!c.last) image.push_back(c.channels);
  image.insert(image.end(), c.image.begin(), c.image.end());
  if (c.last) image.push_back(c.channels);
  Ints filter{c.filters, c.channels / c.groups};
  filter.insert(filter.end(), c.window.begin(), c.window.end());
  std::vector<Tensor> inputs{*ir::random_tensor(c.dtype, image, 3), *ir::random_tensor(c.dtype, filter, 4)};
  if (c.bias) inputs.push_back(*ir::random_tensor(c.dtype, {c.filters}, 5));
  const auto want = ir::evaluate(before, inputs), got = ir::evaluate(after, inputs);
  ASSERT_TRUE(want.ok() && got.ok()) << want.status().str() << got.status().str();
  const Tensor &w = (*want)[0], &g = (*got)[0];
  ASSERT_EQ(w.shape(), g.shape());
  const auto at = [](const Tensor& t, int64_t i) {
    return ir::load_double(t.dtype(), t.as<char>() + i * static_cast<int64_t>(size_of(t.dtype())));
  };
  double largest = 1;
  for (int64_t i = 0; i < w.num_elements(); ++i) largest = std::max(largest, std::abs(at(w, i)));
  for (int64_t i = 0; i < w.num_elements(); ++i) {
    ASSERT_NEAR(at(g, i), at(w, i), is_float(c.dtype) ? tolerance(c.dtype) * largest : 0) << i << "\n"
                                                                                          << ir::print(before);
  }
}

TEST(ExpandConvolutions, OfPlanes) {
  for (const bool last : {false, true})
    for (const int64_t groups : {1, 2})
      for (const bool symbolic : {false, true})
        for (const Ints& pads : std::vector<Ints>{{0, 0, 0, 0}, {1, 0, 2, 3}})
          for (const Ints& window : std::vector<Ints>{{1, 1}, {3, 2}})
            for (const int64_t stride : {1, 2})
              expect_same({.image = {6, 7},
                           .window = window,
                           .strides = {stride, 1},
                           .pads = pads,
                           .dilations = {1, 2},
                           .groups = groups,
                           .last = last,
                           .symbolic = symbolic});
}

TEST(ExpandConvolutions, OfLinesAndVolumes) {
  for (const bool last : {false, true}) {
    expect_same({.image = {9}, .window = {4}, .strides = {3}, .pads = {2, 1}, .dilations = {1}, .last = last});
    expect_same({.image = {4, 5, 3},
                 .window = {2, 3, 1},
                 .strides = {1, 2, 2},
                 .pads = {0, 1, 0, 1, 1, 0},
                 .dilations = {2, 1, 1},
                 .groups = 2,
                 .last = last,
                 .bias = false});
  }
}

TEST(ExpandConvolutions, OfEveryType) {
  for (const DType dtype : {DType::f64, DType::f16, DType::bf16, DType::i32, DType::u8})
    for (const int64_t groups : {1, 2})
      expect_same({.image = {5, 5},
                   .window = {3, 3},
                   .strides = {1, 1},
                   .pads = {1, 1, 1, 1},
                   .dilations = {1, 1},
                   .groups = groups,
                   .dtype = dtype});
}

TEST(ExpandConvolutions, OfNothing) {
  expect_same(
      {.image = {5, 5}, .window = {1, 1}, .strides = {2, 2}, .pads = {0, 0, 0, 0}, .dilations = {1, 1}, .filters = 0});
}

}  // namespace
}  // namespace fusec::compiler

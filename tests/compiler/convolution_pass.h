// SPDX-License-Identifier: Apache-2.0
// One convolution of a channels-last input before and after a pass: the results of both by the evaluator.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "compiler/passes/pipeline.h"
#include "ir/eval/graph.h"
#include "ir/ops/cast.h"
#include "ir/ops/random.h"
#include "ir/text/graph_text.h"
#include "ir/verify/graph.h"

namespace fusec::compiler {

struct Conv {
  std::vector<int64_t> in, kernel, strides, pads, dilations;
  int64_t channels = 3;
  bool bias = true;
  DType dtype = DType::f32;
  int64_t filters = 0;  // 0: one per channel, depthwise
};

inline ir::Graph make_graph(const Conv& c) {
  ir::Graph g;
  Shape shape{Dim::symbol("N")};
  for (const int64_t extent : c.in) shape.push_back(extent);
  shape.push_back(c.channels);
  const ir::ValueId x = add_input(g, "x", {c.dtype, shape});
  const int64_t filters = c.filters > 0 ? c.filters : c.channels;
  std::vector<int64_t> filter{filters, c.filters > 0 ? c.channels : 1};
  filter.insert(filter.end(), c.kernel.begin(), c.kernel.end());
  std::vector<ir::ValueId> inputs{x, add_constant(g, *ir::random_tensor(c.dtype, filter, 1))};
  if (c.bias) inputs.push_back(add_constant(g, *ir::random_tensor(c.dtype, {filters}, 2)));
  const ir::ValueId y = add_node(g, ir::TensorOp::conv, inputs,
                                 {{"strides", c.strides},
                                  {"pads", c.pads},
                                  {"dilations", c.dilations},
                                  {"groups", c.filters > 0 ? int64_t{1} : c.channels},
                                  {"layout", std::string("last")}});
  add_output(g, y, "y");
  g.symbols = {"N"};
  return g;
}

inline bool run_on(ir::Graph& g, const std::string& pass, const Target& target, const Options& options = {}) {
  const Result<bool> changed = run_pass(*find_pass(pass), g, {target, options});
  EXPECT_TRUE(changed.ok()) << changed.status().str();
  EXPECT_TRUE(verify(g, ir::GraphForm::optimized).ok());
  return changed.ok() && *changed;
}

// One unit in the last place of 16-bit types, which both sides round to once; a few of f32, whose sums differ in order.
inline double tolerance(DType dtype) { return dtype == DType::f32 ? 2e-6 : dtype == DType::f16 ? 0x1p-10 : 0x1p-7; }

// Both graphs give one result for an input of that shape.
inline void expect_results(const ir::Graph& before, const ir::Graph& after, DType dtype,
                           const std::vector<int64_t>& shape) {
  const std::vector<Tensor> inputs{*ir::random_tensor(dtype, shape, 3)};
  const auto want = ir::evaluate(before, inputs), got = ir::evaluate(after, inputs);
  EXPECT_TRUE(want.ok() && got.ok()) << want.status().str() << got.status().str();
  if (!want.ok() || !got.ok()) return;
  EXPECT_EQ((*want)[0].shape(), (*got)[0].shape());
  for (int64_t i = 0; i < (*want)[0].num_elements(); ++i) {
    const auto at = [&](const Tensor& t) {
      return ir::load_double(dtype, t.as<char>() + i * static_cast<int64_t>(size_of(dtype)));
    };
    const double w = at((*want)[0]);
    EXPECT_NEAR(at((*got)[0]), w, tolerance(dtype) * (std::abs(w) + 1)) << i << "\n" << ir::print(before);
  }
}

// The graph after the pass, which must change it for sm_75 and keep its results.
inline ir::Graph expect_same(const std::string& pass, const Conv& c) {
  const ir::Graph before = make_graph(c);
  ir::Graph after = before;
  EXPECT_TRUE(run_on(after, pass, *named_target("sm_75"))) << ir::print(before);
  after = compact(after);
  std::vector<int64_t> shape{2};
  shape.insert(shape.end(), c.in.begin(), c.in.end());
  shape.push_back(c.channels);
  expect_results(before, after, c.dtype, shape);
  return after;
}

}  // namespace fusec::compiler

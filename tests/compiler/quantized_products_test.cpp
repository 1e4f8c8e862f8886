// SPDX-License-Identifier: Apache-2.0
// Which products by matrices of 8-bit integers quantized_products writes out, and that the integers reach the kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/partition/partition.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/pipeline.h"
#include "ir/eval/graph.h"
#include "ir/ops/random.h"
#include "ir/text/graph_text.h"

namespace fusec::compiler {
namespace {

using ir::ScalarOp;
using ir::TensorOp;
using ir::ValueId;

constexpr int64_t kTerms = 1024;

// What DequantizeLinear makes of [results, terms], or of [terms, results] if `transposed`, with one scale and one zero
// point for each result.
ValueId dequantized(ir::Graph& g, int64_t results, bool transposed) {
  const std::vector<int64_t> shape = transposed ? std::vector{kTerms, results} : std::vector{results, kTerms};
  const std::vector<int64_t> along = transposed ? std::vector<int64_t>{results} : std::vector<int64_t>{results, 1};
  const ValueId q = add_constant(g, *ir::random_tensor(DType::i8, shape, 1));
  const ValueId zero = add_constant(g, *ir::random_tensor(DType::i8, along, 2));
  const ValueId scale = add_constant(g, *ir::random_tensor(DType::f32, along, 3));
  const auto wide = [&](ValueId v) { return add_node(g, ScalarOp::cast, {v}, {{"to", DType::f32}}); };
  return add_node(g, ScalarOp::mul, {add_node(g, ScalarOp::sub, {wide(q), wide(zero)}), scale});
}
void multiply(ir::Graph& g, ValueId x, int64_t results, bool transposed, const char* name) {
  add_output(g,
             add_node(g, TensorOp::matmul, {x, dequantized(g, results, transposed)},
                      {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{transposed ? 0 : 1}}}),
             name);
}
ir::Graph make(const Dim& rows, int64_t results, bool transposed = true, int products = 1) {
  ir::Graph g;
  const ValueId x = add_input(g, "x", {DType::f32, {1, rows, kTerms}});
  if (!rows.is_const()) g.symbols = {"N"};
  for (int i = 0; i < products; ++i) multiply(g, x, results, transposed, i == 0 ? "y" : "z");
  return g;
}

bool writes_out(ir::Graph g, const char* target = "sm_90") {
  const Result<bool> changed = run_pass(*find_pass("quantized_products"), g, {named_target(target).value(), {}});
  EXPECT_TRUE(changed.ok()) << changed.status().str();
  return changed.ok() && *changed;
}

TEST(QuantizedProducts, OfOneRowAndLargeMatrices) {
  EXPECT_TRUE(writes_out(make(1, 1024)));
  EXPECT_TRUE(writes_out(make(1, 1024, false)));
  EXPECT_FALSE(writes_out(make(2, 1024)));
  EXPECT_FALSE(writes_out(make(Dim::symbol("N"), 1024)));
  EXPECT_FALSE(writes_out(make(1, 512)));
  EXPECT_FALSE(writes_out(make(1, 1024, true, 2)));  // one call of a library
  EXPECT_TRUE(writes_out(make(1, 6144, true, 2)));
  EXPECT_FALSE(writes_out(make(1, 1024), "x86-64-v3"));
}

TEST(QuantizedProducts, AreKernelsThatReadTheIntegers) {
  const Target target = named_target("sm_90").value();
  for (const std::optional<DType> precision : {std::optional<DType>(), std::optional(DType::f16)}) {
    ir::Graph g = make(1, 1024);
    Options options;
    options.precision = precision;
    ASSERT_TRUE(optimize(g, target, options).ok());
    const auto parts = partition(g, target, options);
    ASSERT_TRUE(parts.ok()) << parts.status().str();
    ASSERT_EQ(parts->regions.size(), 1U) << print(g);
    EXPECT_EQ(parts->regions[0].kind, RegionKind::kernel);
    const std::vector<ValueId>& inputs = parts->regions[0].inputs;
    EXPECT_TRUE(std::any_of(inputs.begin(), inputs.end(), [&](ValueId v) {
      return g.type(v).dtype == DType::i8 && num_elements(g.type(v).shape).is(1024 * 1024);
    })) << print(g);
  }
}

TEST(QuantizedProducts, ComputeWhatTheGraphSays) {
  for (const bool transposed : {false, true}) {
    ir::Graph g = make(1, 1024, transposed);
    const std::vector<Tensor> inputs = {*ir::random_tensor(DType::f32, {1, 1, kTerms}, 9)};
    const auto want = ir::evaluate(g, inputs);
    ASSERT_TRUE(run_pass(*find_pass("quantized_products"), g, {named_target("sm_90").value(), {}}).ok());
    const auto got = ir::evaluate(g, inputs);
    ASSERT_TRUE(want.ok() && got.ok()) << got.status().str();
    ASSERT_TRUE((*want)[0].shape() == (*got)[0].shape());
    const float *a = (*want)[0].as<float>(), *b = (*got)[0].as<float>();
    float most = 0;
    for (int64_t i = 0; i < 1024; ++i) most = std::max(most, std::fabs(a[i]));
    for (int64_t i = 0; i < 1024; ++i) ASSERT_NEAR(a[i], b[i], 1e-5 * most) << i;
  }
}

}  // namespace
}  // namespace fusec::compiler

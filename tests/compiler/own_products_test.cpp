// SPDX-License-Identifier: Apache-2.0
// Which large products own_products writes out: those with an activation behind them that no library fuses, where the
// target multiplies tiles.
#include <gtest/gtest.h>

#include "compiler/passes/pipeline.h"
#include "ir/ops/cast.h"
#include "ir/ops/random.h"
#include "ir/text/graph_text.h"

namespace fusec::compiler {
namespace {

using ir::ScalarOp;
using ir::ValueId;

constexpr int64_t kWidth = 216;  // of a matrix that memory does not bound: 216 * 216 / (216 + 216) = 108

// A product of so many rows with a bias, and what `follow` adds behind it.
template <class Follow>
ir::Graph make_product(const Dim& rows, const Follow& follow) {
  ir::Graph g;
  const ValueId x = add_input(g, "x", {DType::f16, {rows, kWidth}});
  const ValueId w = add_constant(g, *ir::random_tensor(DType::f16, {kWidth, kWidth}, 1));
  const ValueId b = add_constant(g, *ir::random_tensor(DType::f16, {kWidth}, 2));
  const ValueId product =
      add_node(g, ir::TensorOp::matmul, {x, w}, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{1}}});
  add_output(g, follow(g, add_node(g, ScalarOp::add, {product, b})), "y");
  if (!rows.is_const()) g.symbols = {"N"};
  return g;
}

ValueId number(ir::Graph& g, double value) {
  Tensor t = Tensor::make(DType::f16, {}).value();
  ir::store_double(DType::f16, static_cast<char*>(t.data()), value);
  return add_constant(g, t);
}
ValueId gelu(ir::Graph& g, ValueId x) {
  const ValueId erf = add_node(g, ScalarOp::erf, {add_node(g, ScalarOp::div, {x, number(g, 1.4142)})});
  const ValueId twice = add_node(g, ScalarOp::mul, {x, add_node(g, ScalarOp::add, {erf, number(g, 1)})});
  return add_node(g, ScalarOp::mul, {twice, number(g, 0.5)});
}
ValueId silu(ir::Graph& g, ValueId x) { return add_node(g, ScalarOp::silu, {x}); }
ValueId long_silu(ir::Graph& g, ValueId x) {
  return add_node(g, ScalarOp::mul, {x, add_node(g, ScalarOp::sigmoid, {x})});
}
ValueId relu(ir::Graph& g, ValueId x) { return add_node(g, ScalarOp::relu, {x}); }
ValueId gate(ir::Graph& g, ValueId x) {
  const ValueId other = add_input(g, "other", g.values[x].type);
  return add_node(g, ScalarOp::mul, {silu(g, x), other});
}

bool is_own(ir::Graph g, const char* target = "sm_90") {
  const Target t = named_target(target).value();
  const Result<bool> changed = run_pass(*find_pass("own_products"), g, {t, {}});
  EXPECT_TRUE(changed.ok()) << changed.status().str();
  return changed.ok() && *changed;
}

TEST(OwnProducts, LargeOnesWithActivations) {
  const Dim any = Dim::symbol("N");
  EXPECT_TRUE(is_own(make_product(any, gelu)));
  EXPECT_TRUE(is_own(make_product(any, silu)));
  EXPECT_TRUE(is_own(make_product(any, long_silu)));
  EXPECT_TRUE(is_own(make_product(12544, gelu)));
  EXPECT_FALSE(is_own(make_product(any, relu)));  // cuBLASLt has it
  EXPECT_FALSE(is_own(make_product(any, gate)));
  EXPECT_TRUE(is_own(make_product(128 * 66, gelu)));  // 132 tiles of 128 rows and 192 columns, in two columns
  EXPECT_FALSE(is_own(make_product(128 * 65, gelu)));
  EXPECT_FALSE(is_own(make_product(16, gelu)));
  EXPECT_FALSE(is_own(make_product(any, gelu), "sm_89"));
  EXPECT_FALSE(is_own(make_product(any, gelu), "sm_100"));
}

}  // namespace
}  // namespace fusec::compiler

// SPDX-License-Identifier: Apache-2.0
// Which large products own_products writes out: those with an activation behind them that no library fuses, where the
// target multiplies tiles.
#include <gtest/gtest.h>

#include "compiler/passes/passes.h"
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

// A product of 256 terms and 64 results behind a batch norm of `$source`, as in networks whose norms come first.
int count_own_behind_norm(const std::string& source, const std::string& scale) {
  const std::string rows = source == "%3" ? "2*N" : "N";
  std::string text = R"(graph @main(%x: f16[N, 64], %r: f16[N, 256]) {
  %0 = constant f16[64, 256] {random 1}
  %1 = matmul %x, %0 {transpose_a = 0, transpose_b = 0}: f16[N, 256]
  %2 = add %1, %r: f16[N, 256]
  %3 = concat %1, %r {axis = 0}: f16[2*N, 256]
  %4 = max %r, %r: f16[N, 256]
  %5 = constant f16[$scale] {random 2}
  %6 = constant f16[256] {random 3}
  %7 = mul $source, %5: f16[$rows, 256]
  %8 = add %7, %6: f16[$rows, 256]
  %9 = relu %8: f16[$rows, 256]
  %10 = constant f16[256, 64] {random 4}
  %11 = matmul %9, %10 {transpose_a = 0, transpose_b = 0}: f16[$rows, 64]
  return %11 as "y"
}
)";
  for (const auto& [name, value] : {std::pair{"$scale", &scale}, {"$source", &source}, {"$rows", &rows}})
    for (size_t at = 0; (at = text.find(name)) != std::string::npos;)
      text.replace(at, std::string_view(name).size(), *value);
  const auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok()) << g.status().str();
  return g.ok() ? static_cast<int>(own_product_nodes(*g, {named_target("sm_90").value(), {}}).size()) : 0;
}

TEST(OwnProducts, BehindBatchNormsOfCalls) {
  EXPECT_EQ(count_own_behind_norm("%1", "256"), 1);
  EXPECT_EQ(count_own_behind_norm("%2", "256"), 1) << "the call adds the residual";
  EXPECT_EQ(count_own_behind_norm("%3", "256"), 0) << "of a concat";
  EXPECT_EQ(count_own_behind_norm("%4", "256"), 0) << "the kernel that makes it computes the norm";
  EXPECT_EQ(count_own_behind_norm("%1", "1"), 0) << "one scale for all terms";
}

}  // namespace
}  // namespace fusec::compiler

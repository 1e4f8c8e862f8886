// SPDX-License-Identifier: Apache-2.0
// Products that are merged, and operands that become views, give what they gave.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "compiler/passes/pipeline.h"
#include "ir/eval/graph.h"
#include "ir/ops/cast.h"
#include "ir/ops/random.h"
#include "ir/text/graph_text.h"
#include "ir/verify/graph.h"

namespace fusec::compiler {
namespace {

using ir::Graph;
using ir::ScalarOp;
using ir::TensorOp;
using ir::ValueId;

bool run(Graph& g, const char* pass, const char* target = "sm_90", const Options& options = {}) {
  const Result<bool> changed = run_pass(*find_pass(pass), g, {*named_target(target), options});
  EXPECT_TRUE(changed.ok()) << changed.status().str();
  EXPECT_TRUE(verify(g, ir::GraphForm::optimized).ok()) << ir::print(g);
  return changed.ok() && *changed;
}

int count(const Graph& g, ir::Op op) {
  int n = 0;
  for (const ir::NodeId id : g.order) n += g.nodes[id].op == op ? 1 : 0;
  return n;
}

// 0: equal bits. Else relative to the results, which are of order 1.
void expect_equal(const Graph& before, const Graph& after, const std::vector<Tensor>& inputs, double tolerance) {
  const auto want = ir::evaluate(before, inputs), got = ir::evaluate(after, inputs);
  ASSERT_TRUE(want.ok() && got.ok()) << want.status().str() << got.status().str();
  for (std::size_t output = 0; output < want->size(); ++output) {
    const Tensor &w = (*want)[output], &g = (*got)[output];
    ASSERT_EQ(w.shape(), g.shape());
    for (int64_t i = 0; i < w.num_elements(); ++i) {
      const auto at = [&](const Tensor& t) {
        return ir::load_double(t.dtype(), t.as<char>() + i * static_cast<int64_t>(size_of(t.dtype())));
      };
      ASSERT_NEAR(at(g), at(w), tolerance * (std::abs(at(w)) + 1)) << i << ir::print(before) << ir::print(after);
    }
  }
}

ValueId matmul(Graph& g, ValueId a, ValueId b, bool transpose_b = false) {
  return add_node(g, TensorOp::matmul, {a, b}, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{transpose_b}}});
}

ValueId weights(Graph& g, DType dtype, std::vector<int64_t> shape, uint64_t seed) {
  return add_constant(g, *ir::random_tensor(dtype, shape, seed));
}

// x times matrices of so many columns, with biases behind some; kernels read the parts.
TEST(MergeProducts, RandomProducts) {
  std::mt19937 random(1);
  int merged = 0;
  for (int round = 0; round < 60; ++round) {
    const DType dtype = round % 3 == 0 ? DType::f64 : DType::f32;
    const int64_t terms = 1 + static_cast<int64_t>(random() % 9);
    const bool transposed = random() % 2 == 0;
    Graph g;
    const ValueId x = add_input(g, "x", {dtype, {Dim::symbol("N"), 3, terms}});
    g.symbols = {"N"};
    const int products = 2 + static_cast<int>(random() % 3);
    for (int i = 0; i < products; ++i) {
      const int64_t columns = 4 * (1 + static_cast<int64_t>(random() % 4));
      const std::vector<int64_t> shape = transposed ? std::vector{columns, terms} : std::vector{terms, columns};
      ValueId v = matmul(g, x, weights(g, dtype, shape, random()), transposed);
      if (random() % 2 == 0) v = add_node(g, ScalarOp::add, {weights(g, dtype, {columns}, random()), v});
      v = add_node(g, ScalarOp::silu, {v});
      add_output(g, v, "y" + std::to_string(i));
    }
    Graph after = g;
    ASSERT_TRUE(run(after, "merge_products")) << ir::print(g);
    after = compact(after);
    merged += count(after, TensorOp::matmul) == 1 ? 1 : 0;
    expect_equal(g, after, {*ir::random_tensor(dtype, {2, 3, terms}, random())}, 0);
  }
  EXPECT_EQ(merged, 60);
}

// Of products of a product both are merged, the second of a part of the first.
TEST(MergeProducts, ProductsOfParts) {
  Graph g;
  const ValueId x = add_input(g, "x", {DType::f32, {5, 8}});
  const ValueId a = matmul(g, x, weights(g, DType::f32, {8, 12}, 1)),
                b = matmul(g, x, weights(g, DType::f32, {8, 4}, 2));
  for (const uint64_t seed : {3, 4}) {
    const ValueId y = matmul(g, a, weights(g, DType::f32, {12, 8}, seed));
    add_output(g, add_node(g, ScalarOp::exp, {y}), "y" + std::to_string(seed));
  }
  add_output(g, add_node(g, ScalarOp::exp, {b}), "b");
  Graph after = g;
  ASSERT_TRUE(run(after, "merge_products"));
  after = compact(after);
  EXPECT_EQ(count(after, TensorOp::matmul), 2) << ir::print(after);
  expect_equal(g, after, {*ir::random_tensor(DType::f32, {5, 8}, 5)}, 0);
}

Graph gated(DType dtype, ScalarOp activation, int64_t width = 216) {
  Graph g;
  const ValueId x = add_input(g, "x", {dtype, {Dim::symbol("N"), width}});
  g.symbols = {"N"};
  const ValueId gate = matmul(g, x, weights(g, dtype, {width, width}, 1));
  const ValueId up = matmul(g, x, weights(g, dtype, {width, width}, 2));
  const ValueId y = add_node(g, ScalarOp::mul, {add_node(g, activation, {gate}), up});
  add_output(g, matmul(g, y, weights(g, dtype, {width, 8}, 3)), "y");
  return g;
}

TEST(MergeProducts, GatedLayers) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const ScalarOp activation : {ScalarOp::silu, ScalarOp::gelu, ScalarOp::gelu_tanh, ScalarOp::relu}) {
      Graph g = gated(dtype, activation);
      EXPECT_TRUE(run(g, "merge_products")) << ir::print(g);
      EXPECT_EQ(count(compact(g), TensorOp::matmul), 2) << ir::print(g);
    }
  }
  Graph small = gated(DType::f16, ScalarOp::silu, 64);
  EXPECT_FALSE(run(small, "merge_products")) << "each product becomes a kernel";
}

TEST(MergeProducts, OneWholeOfMatricesThatLayersShare) {
  Graph g;
  ValueId x = add_input(g, "x", {DType::f32, {5, 8}});
  const ValueId a = weights(g, DType::f32, {8, 8}, 1), b = weights(g, DType::f32, {8, 8}, 2);
  for (int layer = 0; layer < 3; ++layer)
    x = add_node(g, ScalarOp::mul, {add_node(g, ScalarOp::silu, {matmul(g, x, a)}), matmul(g, x, b)});
  add_output(g, x, "y");
  Graph after = g;
  ASSERT_TRUE(run(after, "merge_products"));
  after = compact(after);
  EXPECT_EQ(count(after, TensorOp::matmul), 3);
  EXPECT_EQ(count(after, TensorOp::constant), 1) << ir::print(after);
  expect_equal(g, after, {*ir::random_tensor(DType::f32, {5, 8}, 5)}, 0);
}

TEST(MergeProducts, NotWithAMatrixOrResultThatIsNeededAlone) {
  for (int kind = 0; kind < 3; ++kind) {
    Graph g;
    const ValueId x = add_input(g, "x", {DType::f32, {5, 8}});
    const ValueId a = weights(g, DType::f32, {8, 8}, 1), b = weights(g, DType::f32, {8, 8}, 2);
    const ValueId p = matmul(g, x, a), q = matmul(g, x, b);
    add_output(g, add_node(g, ScalarOp::exp, {p}), "p");
    add_output(g, add_node(g, ScalarOp::exp, {q}), "q");
    if (kind == 0) add_output(g, q, "r");
    if (kind == 1) add_output(g, add_node(g, ScalarOp::exp, {a}), "r");
    EXPECT_EQ(run(g, "merge_products"), kind == 2);
  }
}

// Two heads of attention, from one product per operand, by the layouts that exporters write.
Graph attention(bool merged_batch, int shared, double scale) {
  Graph g;
  const Dim n = Dim::symbol("N");
  g.symbols = {"N"};
  const int64_t heads = 4, rows = 3, channels = 4;
  const Shape in = merged_batch ? Shape{rows, n, 8} : Shape{n, rows, 8};
  const ValueId x = add_input(g, "x", {DType::f32, in});
  std::vector<ValueId> operands;
  for (const uint64_t seed : {1, 2, 3}) {
    const int64_t own = seed == 1 ? heads : heads / shared;
    ValueId v = matmul(g, x, weights(g, DType::f32, {8, own * channels}, seed));
    const Shape apart = merged_batch ? Shape{rows, n * own, channels} : Shape{n, rows, own, channels};
    v = add_node(g, TensorOp::reshape, {v}, {{"shape", apart}});
    const std::vector<int64_t> perm = merged_batch ? std::vector<int64_t>{1, 0, 2} : std::vector<int64_t>{0, 2, 1, 3};
    v = add_node(g, TensorOp::transpose, {v}, {{"perm", perm}});
    if (merged_batch) v = add_node(g, TensorOp::reshape, {v}, {{"shape", Shape{n, own, rows, channels}}});
    if (own != heads) {
      v = add_node(g, TensorOp::reshape, {v}, {{"shape", Shape{n, own, 1, rows, channels}}});
      v = add_node(g, TensorOp::broadcast, {v}, {{"shape", Shape{n, own, shared, rows, channels}}});
      v = add_node(g, TensorOp::reshape, {v}, {{"shape", Shape{n, heads, rows, channels}}});
    }
    if (seed != 3 && scale != 1) v = add_node(g, ScalarOp::mul, {v, add_scalar_constant(g, DType::f32, scale)});
    operands.push_back(v);
  }
  ValueId product;
  if (scale == 1) {
    product = matmul(g, operands[0], operands[1], true);
  } else {
    const std::vector<int64_t> swap{0, 1, 3, 2};
    product = matmul(g, operands[0], add_node(g, TensorOp::transpose, {operands[1]}, {{"perm", swap}}));
  }
  const ValueId scores = add_node(g, ScalarOp::tanh, {product});
  add_output(g, matmul(g, scores, operands[2]), "y");
  return g;
}

TEST(StridedOperands, GiveWhatTheProductGives) {
  for (const bool merged_batch : {false, true}) {
    for (const int shared : {1, 2, 4}) {
      for (const double scale : {0.5, 0.5946, 1.3}) {
        const Graph before = attention(merged_batch, shared, scale);
        Graph after = before;
        ASSERT_TRUE(run(after, "strided_operands")) << ir::print(before);
        after = compact(after);
        EXPECT_EQ(count(after, ScalarOp::mul), 1) << ir::print(after);
        if (shared == 1) {
          EXPECT_TRUE(run(after, "merge_products")) << ir::print(after);
          after = compact(after);
          EXPECT_EQ(count(after, TensorOp::matmul), 3) << ir::print(after);
        }
        const std::vector<int64_t> shape = merged_batch ? std::vector<int64_t>{3, 2, 8} : std::vector<int64_t>{2, 3, 8};
        expect_equal(before, after, {*ir::random_tensor(DType::f32, shape, 7)}, 2e-6);
      }
    }
  }
}

TEST(StridedOperands, LeaveNoTraceOfWhatTheyTried) {
  Graph g = attention(false, 1, 1);
  EXPECT_FALSE(run(g, "strided_operands"));
  EXPECT_TRUE(run(g, "merge_products"));
  EXPECT_EQ(count(compact(g), TensorOp::matmul), 3) << ir::print(g);
}

TEST(StridedOperands, NotOfFactorsThatLeaveTheRange) {
  Graph g = attention(false, 1, 0x1p-100);
  run(g, "strided_operands");
  EXPECT_EQ(count(compact(g), ScalarOp::mul), 2);
}

}  // namespace
}  // namespace fusec::compiler

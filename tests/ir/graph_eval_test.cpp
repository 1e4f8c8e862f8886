// SPDX-License-Identifier: Apache-2.0
// The values of ops are pinned by tests/text/run; here is what text cannot show.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "ir/eval/graph.h"
#include "ir/ops/cast.h"
#include "ir/ops/random.h"
#include "ir/ops/reference.h"
#include "ir/text/graph_text.h"

namespace fusec::ir {
namespace {

Graph parse(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().str();
  return graph.ok() ? *graph : Graph();
}

std::vector<Tensor> run(const Graph& graph, const std::vector<Tensor>& inputs, const EvalOptions& options = {}) {
  auto outputs = evaluate(graph, inputs, options);
  EXPECT_TRUE(outputs.ok()) << outputs.status().str();
  return outputs.ok() ? *outputs : std::vector<Tensor>(graph.outputs.size());
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

TEST(Evaluate, ReadsStridedInputs) {
  const Graph graph = parse(R"(graph @main(%x: f32[3, 2], %y: f32[3, 2]) {
    %0 = mul %x, %y: f32[3, 2]
    %1 = reduce_sum %x {axes = [0]}: f32[2]
    return %0 as "p", %1 as "s", %x as "x"
  })");
  float x[] = {1, 2, 3, 4, 5, 6}, y[] = {10};
  const Tensor transposed = Tensor::borrow(DType::f32, {3, 2}, x, {1, 3});      // 1 4 | 2 5 | 3 6
  const Tensor reversed = Tensor::borrow(DType::f32, {3, 2}, x + 5, {-2, -1});  // 6 5 | 4 3 | 2 1
  const Tensor constant = Tensor::borrow(DType::f32, {3, 2}, y, {0, 0});
  const auto a = run(graph, {transposed, constant}), b = run(graph, {reversed, transposed});
  EXPECT_EQ(std::vector<float>(a[0].as<float>(), a[0].as<float>() + 6), (std::vector<float>{10, 40, 20, 50, 30, 60}));
  EXPECT_EQ(std::vector<float>(a[1].as<float>(), a[1].as<float>() + 2), (std::vector<float>{6, 15}));
  EXPECT_EQ(std::vector<float>(b[0].as<float>(), b[0].as<float>() + 6), (std::vector<float>{6, 20, 8, 15, 6, 6}));
  EXPECT_EQ(std::vector<float>(b[2].as<float>(), b[2].as<float>() + 6), (std::vector<float>{6, 5, 4, 3, 2, 1}));
}

TEST(Evaluate, ThreadsDoNotChangeBits) {
  const Graph graph = parse(R"(graph @main(%x: f32[N, 6, 20, 20], %f: f32[8, 3, 3, 3], %w: f32[400, 30]) {
    %0 = conv %x, %f {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], groups = 2, )"
                            R"(layout = "first"}: f32[N, 8, 20, 20]
    %1 = gelu %0: f32[N, 8, 20, 20]
    %2 = reshape %1 {shape = [N, 8, 400]}: f32[N, 8, 400]
    %3 = matmul %2, %w {transpose_a = 0, transpose_b = 0}: f32[N, 8, 30]
    %4 = reduce_sum %1 {axes = [0, 2]}: f32[8, 20]
    %5 = transpose %1 {perm = [3, 1, 0, 2]}: f32[20, 8, N, 20]
    %6 = max_pool %1 {kernel = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], dilations = [1, 1], )"
                            R"(ceil_mode = 0, layout = "first"}: f32[N, 8, 10, 10]
    return %3 as "a", %4 as "b", %5 as "c", %6 as "d"
  })");
  const std::vector<Tensor> inputs = {*random_tensor(DType::f32, {3, 6, 20, 20}, 1),
                                      *random_tensor(DType::f32, {8, 3, 3, 3}, 2),
                                      *random_tensor(DType::f32, {400, 30}, 3)};
  const auto one = run(graph, inputs);
  for (const int threads : {2, 3, 7}) {
    EvalOptions options;
    options.threads = threads;
    const auto many = run(graph, inputs, options);
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_TRUE(same_bits(one[i], many[i])) << threads << " threads, output " << i;
  }
}

// The same chain in f64 is what wide computes before its last rounding.
TEST(Evaluate, WideRoundsOnlyAtOutputs) {
  const std::string chain = R"( = exp %x: T[64]
    %1 = mul %0, %x: T[64]
    %2 = reduce_sum %1 {axes = [0]}: T[]
    %3 = sub %1, %2: T[64]
    return %3 as "y" })";
  const auto text = [&](const std::string& dtype) {
    std::string out = "graph @main(%x: T[64]) { %0" + chain;
    for (std::size_t at = out.find("T["); at != std::string::npos; at = out.find("T[")) out.replace(at, 1, dtype);
    return parse(out);
  };
  const Tensor x = *random_tensor(DType::f32, {64}, 4);
  EvalOptions wide;
  wide.wide = true;
  const Tensor exact = run(text("f64"), {*round_to(x, DType::f64)})[0];
  const Tensor got = run(text("f32"), {x}, wide)[0], rounded = run(text("f32"), {x})[0];
  EXPECT_TRUE(same_bits(got, *round_to(exact, DType::f32)));
  EXPECT_FALSE(same_bits(got, rounded));
}

TEST(Evaluate, RefusesInputsThatDoNotFit) {
  const Graph graph = parse("graph @main(%x: f32[N, 4]) { return %x as \"y\" }");
  const auto message = [&](std::vector<Tensor> inputs) { return evaluate(graph, inputs).status().str(); };
  EXPECT_EQ(message({}), "invalid_argument: 0 inputs are given, expected 1");
  EXPECT_EQ(message({*Tensor::make(DType::f16, {2, 4})}), "invalid_argument: input 'x' is f16, expected f32");
}

TEST(Evaluate, TakesMoreSymbolsFromOptions) {
  const Graph graph =
      parse("graph @main() { %0 = iota {shape = [M], axis = 0, dtype = i32}: i32[M] return %0 as \"y\" }");
  EvalOptions options;
  options.symbols["M"] = 5;
  EXPECT_EQ(run(graph, {}, options)[0].shape(), (std::vector<int64_t>{5}));
  EXPECT_FALSE(evaluate(graph, {}).ok());
}

TEST(Evaluate, NodeOnItsOwn) {
  const Graph graph = parse(R"(graph @main(%x: f16[2]) {
    %0 = constant f16[2] {1, 3}
    %1 = recip %0: f16[2]
    return %1 as "y" })");
  const Node& constant = graph.nodes[graph.order[0]];
  const Node& recip = graph.nodes[graph.order[1]];
  const auto data = evaluate_node(graph, constant, {});
  ASSERT_TRUE(data.ok()) << data.status().str();
  const auto narrow = evaluate_node(graph, recip, {*data});
  EXPECT_EQ(load_double(DType::f16, narrow->as<uint16_t>() + 1), 0.333251953125);
  EvalOptions wide;
  wide.wide = true;
  const auto wide_data = evaluate_node(graph, constant, {}, wide);
  const auto exact = evaluate_node(graph, recip, {*wide_data}, wide);
  ASSERT_EQ(exact->dtype(), DType::f64);
  EXPECT_EQ(exact->as<double>()[1], 1.0 / 3);
}

Type operand_type(const ScalarOpInfo& row, int i, DType dtype) {
  return {row.typing == Typing::select && i == 0 ? DType::bool_ : dtype, {100}};
}

// Every row on every dtype it takes, element by element against the reference.
TEST(Evaluate, EveryScalarRow) {
  for (std::size_t r = 0; r < all_scalar_ops().size(); ++r) {
    const ScalarOpInfo& row = all_scalar_ops()[r];
    const auto op = static_cast<ScalarOp>(r);
    for (int d = 0; d < kDTypeCount; ++d) {
      const auto dtype = static_cast<DType>(d);
      if (op == ScalarOp::cast || !accepts(op, dtype)) continue;
      Graph graph;
      std::vector<ValueId> operands;
      std::vector<Tensor> inputs;
      for (int i = 0; i < row.arity; ++i) {
        const Type type = operand_type(row, i, dtype);
        operands.push_back(add_input(graph, std::string(1, static_cast<char>('a' + i)), type));
        inputs.push_back(*random_tensor(type.dtype, {100}, static_cast<uint64_t>(i)));
      }
      add_output(graph, add_node(graph, op, operands), "y");
      const Tensor y = run(graph, inputs)[0];
      for (int64_t i = 0; i < 100; ++i) {
        char expected[8] = {};
        const auto at = [&](const Tensor& t) { return t.as<char>() + i * static_cast<int64_t>(size_of(t.dtype())); };
        const auto operand = [&](std::size_t k) { return k < inputs.size() ? at(inputs[k]) : at(inputs[0]); };
        const DType types[] = {inputs[0].dtype(), inputs[inputs.size() > 1 ? 1 : 0].dtype(), inputs.back().dtype()};
        if (is_float(dtype)) {
          const auto f = [&](std::size_t k) { return load_double(types[k], operand(k)); };
          store_double(y.dtype(), expected, eval_scalar(op, f(0), f(1), f(2)));
        } else {
          const auto n = [&](std::size_t k) { return load_int(types[k], operand(k)); };
          store_int(y.dtype(), expected,
                    dtype == DType::bool_ ? eval_scalar(op, n(0) != 0, n(1) != 0, n(2) != 0)
                                          : eval_scalar(op, dtype, n(0), n(1), n(2)));
        }
        ASSERT_EQ(std::memcmp(expected, at(y), size_of(y.dtype())), 0)
            << row.name << " " << to_string(dtype) << " element " << i;
      }
    }
  }
}

// -0 is less than 0.
TEST(Eval, ZerosHaveAnOrder) {
  EXPECT_FALSE(std::signbit(eval_scalar(ScalarOp::clamp, -0.0, 0.0, 6.0)));
  EXPECT_TRUE(std::signbit(eval_scalar(ScalarOp::clamp, 0.0, -6.0, -0.0)));
  float zeros[] = {-0.0F, 0.0F};
  const auto graph = parse_graph(R"(graph @g(%x: f32[1, 1, 2]) {
  %0 = max_pool %x {kernel = [2], strides = [1], pads = [0, 0], dilations = [1], ceil_mode = 0, )"
                                 R"(layout = "first"}: f32[1, 1, 1]
  return %0 as "y"
})");
  ASSERT_TRUE(graph.ok()) << graph.status().str();
  const auto y = evaluate(*graph, {Tensor::borrow(DType::f32, {1, 1, 2}, zeros)});
  ASSERT_TRUE(y.ok()) << y.status().str();
  EXPECT_FALSE(std::signbit((*y)[0].as<float>()[0]));
}

}  // namespace
}  // namespace fusec::ir

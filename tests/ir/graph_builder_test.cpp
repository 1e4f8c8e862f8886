// SPDX-License-Identifier: Apache-2.0
#include "fusec/graph_builder.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "ir/graph/graph.h"

namespace fusec {
namespace {

std::string ops(const Model& model) {
  std::string out;
  for (ir::NodeId n : model.graph->order) out += std::string(model.graph->nodes[n].op.name()) + " ";
  return out;
}

TEST(GraphBuilder, BuildsAModel) {
  GraphBuilder b;
  const Var x = b.input("x", DType::f16, {Dim::symbol("n"), 64});
  b.output("y", b.softmax(2 * x + 1, -1));
  b.output("mask", b.gt(x, 0));
  const Result<Model> model = b.finish();
  ASSERT_TRUE(model.ok()) << model.status().str();
  EXPECT_EQ(ops(*model), "constant mul constant add reduce_max reshape sub exp reduce_sum reshape div constant gt ");
  ASSERT_EQ(model->inputs.size(), 1u);
  EXPECT_EQ(model->inputs[0].name, "x");
  ASSERT_EQ(model->outputs.size(), 2u);
  EXPECT_EQ(model->outputs[0].dtype, DType::f16);
  EXPECT_EQ(to_string(model->outputs[0].shape), "[n, 64]");
  EXPECT_EQ(model->outputs[1].dtype, DType::bool_);
  EXPECT_EQ(model->symbols, std::vector<std::string>{"n"});
  EXPECT_EQ(model->graph->imported_ops, 10);
}

TEST(GraphBuilder, RangesOfSymbols) {
  GraphBuilder b;
  b.output("y", b.relu(b.input("x", DType::f32, {Dim::symbol("n"), Dim::symbol("m")})));
  EXPECT_TRUE(b.range("n", 1, 8).ok());
  EXPECT_TRUE(b.range("n", 2, 64).ok());
  EXPECT_TRUE(b.range("m", 3).ok());
  EXPECT_EQ(b.range("", 0).message(), "'' is no name of a symbol");
  EXPECT_EQ(b.range("2*n", 0).message(), "'2*n' is no name of a symbol");
  EXPECT_EQ(b.range("n", -1, 3).message(), "symbol 'n' cannot be -1 to 3; extents are at least 0");
  EXPECT_EQ(b.range("n", 4, 3).code(), StatusCode::invalid_argument);
  const Result<Model> model = b.finish();
  ASSERT_TRUE(model.ok()) << model.status().str();
  EXPECT_EQ(model->ranges, (std::map<std::string, ExtentRange>{{"n", {2, 64}}, {"m", {3, INT64_MAX}}}));
}

TEST(GraphBuilder, TensorOps) {
  GraphBuilder b;
  const Dim n = Dim::symbol("n");
  const Var x = b.input("x", DType::f32, {n, 3, 32, 32}), w = b.input("w", DType::f32, {8, 3, 3, 3});
  EXPECT_EQ(to_string(b.conv(x, w, {.strides = {2, 2}, .pads = {1, 1, 1, 1}}).shape()), "[n, 8, 16, 16]");
  EXPECT_EQ(to_string(b.max_pool(x, {2, 2}, {.strides = {2, 2}}).shape()), "[n, 3, 16, 16]");
  EXPECT_EQ(to_string(b.avg_pool(x, {3, 3}).shape()), "[n, 3, 30, 30]");
  EXPECT_EQ(to_string(b.attention(x, x, x, 0.5).shape()), "[n, 3, 32, 32]");
  EXPECT_EQ(to_string(b.attention(x, x, x, b.input("mask", DType::f32, {32}), 0.5).shape()), "[n, 3, 32, 32]");
  EXPECT_EQ(to_string(b.transpose(x, {0, -2, -1, 1}).shape()), "[n, 32, 32, 3]");
  EXPECT_EQ(to_string(b.reshape(x, {n, 3072}).shape()), "[n, 3072]");
  EXPECT_EQ(to_string(b.slice(x, {0, 0, 4, 0}, {n, 3, 8, 32}).shape()), "[n, 3, 8, 32]");
  EXPECT_EQ(to_string(b.concat({x, x}, 1).shape()), "[n, 6, 32, 32]");
  EXPECT_EQ(to_string(b.pad(x, {0, 0, 1, 1}, {0, 0, 1, 1}, 0.5).shape()), "[n, 3, 34, 34]");
  EXPECT_EQ(to_string(b.pad_mode(x, {0, 0, 1, 1}, {0, 0, 1, 1}, "reflect").shape()), "[n, 3, 34, 34]");
  EXPECT_EQ(to_string(b.reduce_mean(x, {-1, -2}).shape()), "[n, 3]");
  EXPECT_EQ(to_string(b.reduce_mean(x, {-1, -2}, true).shape()), "[n, 3, 1, 1]");
  EXPECT_EQ(b.argmax(x, 1).dtype(), DType::i64);
  EXPECT_EQ(to_string(b.linear(b.reshape(x, {n, 3072}), b.constant(*Tensor::make(DType::f32, {10, 3072})), 1).shape()),
            "[n, 10]");
  EXPECT_EQ(to_string(b.layer_norm(x, 1, 0).shape()), "[n, 3, 32, 32]");
  EXPECT_EQ(to_string(b.gather(x, b.iota(DType::i64, {5}, 0), -1).shape()), "[n, 3, 32, 5]");
  const Var places = b.topk(x, 5);
  EXPECT_EQ(to_string(places.shape()), "[n, 3, 32, 5]");
  EXPECT_EQ(to_string(b.scatter_elements(x, places, b.gather_elements(x, places, 3), -1, "add").shape()),
            "[n, 3, 32, 32]");
  EXPECT_EQ(to_string(b.scatter_nd(x, b.iota(DType::i64, {n, 1}, 0), x).shape()), "[n, 3, 32, 32]");
  EXPECT_EQ(b.cast(x, DType::bf16).dtype(), DType::bf16);
  EXPECT_EQ(b.dim(n * 2).rank(), 0);
  b.output("y", x);
  EXPECT_TRUE(b.finish().ok()) << b.finish().status().str();
}

TEST(GraphBuilder, MistakesAreReportedOnce) {
  GraphBuilder b, other;
  const Var x = b.input("x", DType::f32, {2, 3}), y = b.input("y", DType::f32, {4});
  const Var bad = x + y;
  EXPECT_FALSE(bad.valid());
  EXPECT_FALSE((bad * 2 + x).valid());
  EXPECT_FALSE(b.relu(bad).valid());
  b.input("x", DType::f32, {});
  b.output("z", bad);
  b.apply("no_such_op", {x});
  b.add(1, 2);
  b.exp(other.input("q", DType::f32, {}));
  b.reduce_sum(x, {5});
  const Status status = b.finish().status();
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_EQ(status.message(), "add: extents 3 and 4 do not broadcast: shapes are [2, 3] and [4]");
  const std::vector<std::string> notes = {"two inputs are named 'x'", "there is no scalar op 'no_such_op'",
                                          "add: a number needs a Var beside it to take its type from",
                                          "exp: an operand belongs to another GraphBuilder",
                                          "reduce_sum: axis 5 is outside the axes of rank 2"};
  EXPECT_EQ(status.notes(), notes);
}

TEST(GraphBuilder, EmptyVarsAndNoOutputs) {
  GraphBuilder b;
  EXPECT_EQ(b.finish().status().message(), "the graph has no output");
  EXPECT_FALSE(b.relu(Var()).valid());
  EXPECT_FALSE((Var() + Var()).valid());
  EXPECT_EQ(b.finish().status().message(), "relu: an operand is an empty Var");
}

TEST(GraphBuilder, OverflowIsAMistakeNotAnException) {
  GraphBuilder b;
  const Var x = b.input("x", DType::f32, {INT64_MAX});
  b.reshape(b.concat({x, x}, 0), {1});
  EXPECT_EQ(b.finish().status().code(), StatusCode::invalid_argument);
}

// The header cannot include the table, so its methods are compared with it.
TEST(GraphBuilder, HasOneMethodPerScalarOp) {
  std::ifstream file(FUSEC_SOURCE_DIR "/include/fusec/graph_builder.h");
  std::stringstream header;
  header << file.rdbuf();
  for (const ir::ScalarOpInfo& row : ir::all_scalar_ops()) {
    if (row.typing == ir::Typing::cast) continue;
    std::string parameters, arguments;
    for (int i = 0; i < row.arity; ++i) {
      const char operand = static_cast<char>('a' + i);
      parameters += std::string(i ? ", " : "") + "Operand " + operand;
      arguments += std::string(i ? ", " : "") + operand;
    }
    const std::string name(row.name);
    const std::string method =
        "  Var " + name + "(" + parameters + ") { return apply(\"" + name + "\", {" + arguments + "}); }\n";
    EXPECT_NE(header.str().find(method), std::string::npos) << method;
  }
}

}  // namespace
}  // namespace fusec

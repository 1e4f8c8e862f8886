// SPDX-License-Identifier: Apache-2.0
#include "ir/graph/graph.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/support/check.h"

namespace fusec::ir {
namespace {

Type vec() { return {DType::f32, {Dim::symbol("n")}}; }

// y = relu(x + 1) * x
Graph sample() {
  Graph g;
  const ValueId x = add_input(g, "x", vec());
  const ValueId one = add_scalar_constant(g, DType::f32, 1);
  const ValueId sum = add_node(g, ScalarOp::add, {x, one});
  const ValueId relu = add_node(g, ScalarOp::relu, {sum});
  add_output(g, add_node(g, ScalarOp::mul, {relu, x}), "y");
  return g;
}

std::vector<std::string> names(const Graph& g) {
  std::vector<std::string> out;
  for (NodeId n : g.order) out.emplace_back(g.nodes[n].op.name());
  return out;
}

TEST(Graph, TypesStayWhereTheyAre) {
  Graph g = sample();
  const Type& type = g.type(g.inputs[0]);
  for (int i = 0; i < 1000; ++i) add_node(g, ScalarOp::neg, {g.inputs[0]});
  EXPECT_EQ(&type, &g.type(g.inputs[0]));
}

TEST(Graph, Building) {
  const Graph g = sample();
  EXPECT_EQ(names(g), (std::vector<std::string>{"constant", "add", "relu", "mul"}));
  EXPECT_EQ(g.symbols, std::vector<std::string>{"n"});
  EXPECT_EQ(to_string(g.type(g.outputs[0])), "f32[n]");
  const Node* mul = g.producer(g.outputs[0]);
  ASSERT_NE(mul, nullptr);
  EXPECT_EQ(g.producer(g.inputs[0]), nullptr);
  const ValueId one = g.nodes[g.order[1]].inputs[1];
  EXPECT_TRUE(g.is_constant(one));
  EXPECT_EQ(*g.constant(one)->as<float>(), 1.0f);
  EXPECT_EQ(g.constant(g.outputs[0]), nullptr);
}

TEST(Graph, MisuseIsAnInternalError) {
  Graph g = sample();
  EXPECT_THROW(add_node(g, ScalarOp::add, {g.inputs[0]}), InternalError);
  EXPECT_THROW(add_node(g, ScalarOp::relu, {ValueId{999}}), InternalError);
  EXPECT_THROW(add_output(g, ValueId{999}, "z"), InternalError);
}

TEST(Graph, Readers) {
  const Graph g = sample();
  const auto r = users(g);
  EXPECT_EQ(r[g.inputs[0]].size(), 2u);
  EXPECT_EQ(r[g.outputs[0]].size(), 0u);
}

TEST(Graph, ReplaceUsesAndRebuildDropWhatIsDead) {
  Graph g = sample();
  const ValueId relu = g.nodes[g.order[2]].output;
  replace_uses(g, relu, g.inputs[0]);
  EXPECT_TRUE(rebuild_order(g));
  EXPECT_EQ(names(g), std::vector<std::string>{"mul"});
  const Graph c = compact(g);
  EXPECT_EQ(c.nodes.size(), 1u);
  EXPECT_EQ(c.values.size(), 2u);
  EXPECT_TRUE(c.constants.empty());
  EXPECT_TRUE(same_graph(g, c));
}

TEST(Graph, ReplacedOutputs) {
  Graph g = sample();
  replace_uses(g, g.outputs[0], g.inputs[0]);
  EXPECT_EQ(g.outputs[0], g.inputs[0]);
  EXPECT_TRUE(rebuild_order(g));
  EXPECT_TRUE(g.order.empty());
}

TEST(Graph, RebuildPlacesNewProducersBeforeTheirReaders) {
  Graph g = sample();
  // relu(x + 1) becomes relu(tanh(x + 1)): the new node is appended last.
  const NodeId relu = g.order[2];
  const ValueId tanh = add_node(g, ScalarOp::tanh, {g.nodes[relu].inputs[0]});
  g.nodes[relu].inputs[0] = tanh;
  EXPECT_TRUE(rebuild_order(g));
  EXPECT_EQ(names(g), (std::vector<std::string>{"constant", "add", "tanh", "relu", "mul"}));
}

TEST(Graph, RebuildKeepsTheOrderOfIndependentNodes) {
  Graph g;
  const ValueId x = add_input(g, "x", vec());
  const ValueId a = add_node(g, ScalarOp::exp, {x}), b = add_node(g, ScalarOp::tanh, {x});
  add_output(g, b, "b");
  add_output(g, a, "a");
  EXPECT_TRUE(rebuild_order(g));
  EXPECT_EQ(names(g), (std::vector<std::string>{"exp", "tanh"}));
}

TEST(Graph, RebuildFindsCycles) {
  Graph g = sample();
  g.nodes[g.order[1]].inputs[1] = g.outputs[0];
  EXPECT_FALSE(rebuild_order(g));
}

TEST(Graph, SameGraph) {
  const Graph a = sample();
  Graph b = sample();
  EXPECT_TRUE(same_graph(a, b));
  // Renumbered.
  Graph c = sample();
  add_node(c, ScalarOp::exp, {c.inputs[0]});
  EXPECT_FALSE(same_graph(a, c));
  EXPECT_TRUE(rebuild_order(c));
  EXPECT_TRUE(same_graph(a, c));
  b.nodes[b.order[2]].origin = "elsewhere";
  EXPECT_TRUE(same_graph(a, b));
  b.constants.begin()->second.as<float>()[0] = 2;
  EXPECT_FALSE(same_graph(a, b));
  Graph d = sample();
  std::swap(d.nodes[d.order[3]].inputs[0], d.nodes[d.order[3]].inputs[1]);
  EXPECT_FALSE(same_graph(a, d));
  Graph e = sample();
  e.output_names[0] = "z";
  EXPECT_FALSE(same_graph(a, e));
}

// A chain, whose recursion depth would be its length, listed in reverse. A quadratic walk takes minutes, which ends at
// the test's time limit.
TEST(Graph, LargeGraphsAreOrderedWithoutRecursion) {
  constexpr int kNodes = 100'000;
  Graph g;
  ValueId v = add_input(g, "x", vec());
  for (int i = 0; i < kNodes; ++i) v = add_node(g, ScalarOp::add, {v, v});
  add_output(g, v, "y");
  std::reverse(g.order.begin(), g.order.end());
  ASSERT_TRUE(rebuild_order(g));
  const Graph c = compact(g);
  ASSERT_EQ(g.order.size(), std::size_t{kNodes});
  EXPECT_EQ(g.order.front().index, 0u);
  EXPECT_TRUE(same_graph(g, c));
}

TEST(Attrs, SortedAndTyped) {
  Attrs a = {{"perm", std::vector<int64_t>{1, 0}}, {"axis", int64_t{3}}};
  a.set("axis", int64_t{4});
  EXPECT_EQ(a.items().size(), 2u);
  EXPECT_EQ(a.items()[0].first, "axis");
  EXPECT_EQ(a.i("axis"), 4);
  EXPECT_EQ(a.ints("perm").size(), 2u);
  EXPECT_EQ(a.find("mode"), nullptr);
  EXPECT_THROW(a.f("axis"), InternalError);
  EXPECT_THROW(a.s("mode"), InternalError);
}

}  // namespace
}  // namespace fusec::ir

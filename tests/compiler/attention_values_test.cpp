// SPDX-License-Identifier: Apache-2.0
// Attentions that are recognized compute what the graph did: masks keep their meaning behind stored keys, for every
// number of queries, keys and stored keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "compiler/passes/pipeline.h"
#include "ir/eval/graph.h"
#include "ir/ops/cast.h"
#include "ir/ops/random.h"
#include "ir/text/graph_text.h"

namespace fusec::compiler {
namespace {

// Attention of S queries and P stored keys in front of S new ones. `lines` define what is done to the scores %s: %x.
ir::Graph make_graph(const std::string& lines, const std::string& inputs = "") {
  const auto graph = ir::parse_graph(
      "graph @main(%q: f16[2, 4, S, 8], %kp: f16[2, 4, P, 8], %kn: f16[2, 4, S, 8], %v: f16[2, 4, P + "
      "S, 8]" +
      inputs + R"() {
  %k = concat %kp, %kn {axis = 2}: f16[2, 4, P + S, 8]
  %s = matmul %q, %k {transpose_a = 0, transpose_b = 1}: f16[2, 4, S, P + S]
  %i = iota {shape = [S, 1], axis = 0, dtype = i64}: i64[S, 1]
  %j = iota {shape = [1, P + S], axis = 1, dtype = i64}: i64[1, P + S]
  %p = dim {value = [P], dtype = i64}: i64[]
  %row = add %i, %p: i64[S, 1]
  %zero = constant f16[] {0}
  %inf = constant f16[] {-inf}
  %low = constant f16[] {-65504}
)" + lines +
      R"(
  %m0 = reduce_max %x {axes = [3]}: f16[2, 4, S]
  %m1 = reshape %m0 {shape = [2, 4, S, 1]}: f16[2, 4, S, 1]
  %d = sub %x, %m1: f16[2, 4, S, P + S]
  %e = exp %d: f16[2, 4, S, P + S]
  %r0 = reduce_sum %e {axes = [3]}: f16[2, 4, S]
  %r1 = reshape %r0 {shape = [2, 4, S, 1]}: f16[2, 4, S, 1]
  %w = div %e, %r1: f16[2, 4, S, P + S]
  %y = matmul %w, %v {transpose_a = 0, transpose_b = 0}: f16[2, 4, S, 8]
  return %y as "y"
}
)");
  EXPECT_TRUE(graph.ok()) << graph.status().str();
  return graph.ok() ? *graph : ir::Graph{};
}

// Random values of which a condition is true for three of four elements.
std::vector<Tensor> random_inputs(const ir::Graph& graph, const std::map<std::string, int64_t>& extents) {
  std::vector<Tensor> out;
  for (const ir::ValueId v : graph.inputs) {
    std::vector<int64_t> shape;
    for (const Dim& d : graph.type(v).shape) shape.push_back(*d.eval(extents));
    const DType dtype = graph.type(v).dtype;
    if (dtype != DType::bool_) {
      out.push_back(*ir::random_tensor(dtype, shape, out.size() + 1));
      continue;
    }
    out.push_back(*Tensor::make(dtype, shape));
    for (int64_t i = 0; i < out.back().num_elements(); ++i) out.back().as<uint8_t>()[i] = i % 4 == 2 ? 0 : 1;
  }
  return out;
}

const ir::Node* find_attention(const ir::Graph& graph) {
  for (const ir::NodeId id : graph.order)
    if (graph.nodes[id].op == ir::TensorOp::attention) return &graph.nodes[id];
  return nullptr;
}

// Recognizes the attention and compares the values.
void expect_same(const ir::Graph& before, bool is_causal, std::size_t operands) {
  ir::Graph after = before;
  const Result<bool> changed = run_pass(*find_pass("recognize_attention"), after, {named_target("sm_90").value(), {}});
  ASSERT_TRUE(changed.ok()) << changed.status().str();
  const ir::Node* const attention = find_attention(after);
  ASSERT_NE(attention, nullptr);
  EXPECT_EQ(attention->attrs.i("causal"), is_causal ? 1 : 0);
  EXPECT_EQ(attention->inputs.size(), operands);
  for (const auto& [s, p] : std::vector<std::pair<int64_t, int64_t>>{{1, 0}, {1, 5}, {3, 0}, {3, 2}, {4, 4}, {2, 7}}) {
    SCOPED_TRACE("S = " + std::to_string(s) + ", P = " + std::to_string(p));
    const std::vector<Tensor> inputs = random_inputs(before, {{"S", s}, {"P", p}});
    const auto want = ir::evaluate(before, inputs), got = ir::evaluate(after, inputs);
    ASSERT_TRUE(want.ok() && got.ok()) << want.status().str() << got.status().str();
    const Tensor &a = (*want)[0], &b = (*got)[0];
    ASSERT_EQ(a.shape(), b.shape());
    for (int64_t i = 0; i < a.num_elements(); ++i)
      EXPECT_NEAR(ir::load_double(DType::f16, a.as<char>() + 2 * i), ir::load_double(DType::f16, b.as<char>() + 2 * i),
                  5e-3);
  }
}

TEST(AttentionValues, CausalBehindStoredKeys) {
  const std::string keep = "  %c = le %j, %row: bool[S, P + S]\n";
  for (const char* low : {"%inf", "%low"}) {
    expect_same(make_graph(keep + "  %x = where %c, %s, " + low + ": f16[2, 4, S, P + S]"), true, 3);
    expect_same(
        make_graph(keep + "  %a = where %c, %zero, " + low + ": f16[S, P + S]\n  %x = add %s, %a: f16[2, 4, S, P + S]"),
        true, 3);
  }
}

TEST(AttentionValues, OtherMasksBehindStoredKeysAreRead) {
  const auto with = [](const std::string& condition) {
    return make_graph("  " + condition +
                      "\n  %a = where %c, %zero, %inf: f16[S, P + S]\n  %x = add %s, %a: f16[2, 4, S, P + S]");
  };
  expect_same(with("%c = le %j, %i: bool[S, P + S]"), false, 4);
  expect_same(make_graph("  %one = constant i64[] {1}\n  %next = add %row, %one: i64[S, 1]\n  %c = le %j, %next: "
                         "bool[S, P + S]\n  %x = where %c, %s, %inf: f16[2, 4, S, P + S]"),
              false, 4);
}

TEST(AttentionValues, MasksOfSymbolicKeys) {
  expect_same(make_graph("  %x = add %s, %m: f16[2, 4, S, P + S]", ", %m: f16[2, 1, 1, P + S]"), false, 4);
  expect_same(make_graph("  %x = add %s, %m: f16[2, 4, S, P + S]", ", %m: f16[1, 4, S, P + S]"), false, 4);
  expect_same(make_graph("  %x = where %m, %s, %inf: f16[2, 4, S, P + S]", ", %m: bool[2, 1, 1, P + S]"), false, 4);
}

// A causal mask and one that is read are one addend.
TEST(AttentionValues, CausalAndPaddingBehindStoredKeys) {
  expect_same(make_graph("  %c = le %j, %row: bool[S, P + S]\n  %b = and_ %c, %m: bool[2, 1, S, P + S]\n  %x = where "
                         "%b, %s, %inf: f16[2, 4, S, P + S]",
                         ", %m: bool[2, 1, 1, P + S]"),
              false, 4);
}

}  // namespace
}  // namespace fusec::compiler

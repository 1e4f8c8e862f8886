// SPDX-License-Identifier: Apache-2.0
// What masks are known to be causal, however they are written, and what is not.
#include "compiler/passes/causal_mask.h"

#include <gtest/gtest.h>

#include <string>

#include "ir/text/graph_text.h"

namespace fusec::compiler {
namespace {

// Whether the value that the lines define last is true up to the diagonal of n queries and keys. An operand %x is i64
// [N, n, n], and %b is bool of that shape.
bool is_causal_mask(const std::string& lines, const std::string& n = "4") {
  const std::string shape = "[N, " + n + ", " + n + "]";
  const auto last = lines.rfind("\n  %") + 4;
  const std::string value = lines.substr(last, lines.find(' ', last) - last);
  const auto graph = ir::parse_graph("graph @main(%x: i64" + shape + ", %b: bool" + shape + ") {" + lines +
                                     "\n  return %" + value + " as \"y\"\n}\n");
  EXPECT_TRUE(graph.ok()) << graph.status().str();
  if (!graph.ok()) return false;
  KnownValues values(*graph);
  const Shape all = graph->type(graph->inputs[0]).shape;
  return is_causal(
      values, graph->outputs[0], all[1], all[2], [](double x) { return x == 1; }, [](double x) { return x == 0; });
}

const std::string kRow = "\n  %r = iota {shape = [S, 1], axis = 0, dtype = i64}: i64[S, 1]";
const std::string kColumn = "\n  %c = iota {shape = [S], axis = 0, dtype = i64}: i64[S]";

bool is_causal_index(const std::string& lines) { return is_causal_mask(kRow + kColumn + lines, "S"); }

TEST(CausalMask, Constants) {
  const auto constant = [](const std::string& rows) {
    return is_causal_mask("\n  %0 = constant bool[4, 4] {" + rows + "}");
  };
  const std::string t = "true, ", f = "false, ";
  const std::string first = t + f + f + f, second = t + t + f + f, third = t + t + t + f, last = t + t + t + "true";
  EXPECT_TRUE(constant(first + second + third + last));
  EXPECT_FALSE(constant(first + second + third + t + t + t + "false"));                      // but for the last element
  EXPECT_FALSE(constant(first + second + t + f + t + f + last));                             // a hole
  EXPECT_FALSE(constant(first + t + t + t + f + third + last));                              // one key more
  EXPECT_FALSE(constant(f + f + f + f + first + second + t + t + t + "false"));              // strictly lower
  EXPECT_FALSE(constant(last + ", " + f + t + t + t + f + f + t + t + f + f + f + "true"));  // transposed
  EXPECT_FALSE(constant(second + third + last + ", " + last));                               // moved by one
  EXPECT_FALSE(constant(f + f + f + f + second + third + last));                             // a row without keys
  EXPECT_FALSE(constant(last + ", " + last + ", " + last + ", " + last));
}

TEST(CausalMask, EveryMatrixOfABatch) {
  const std::string two = "true, false, true, true";
  const auto batch = [&](const std::string& other) {
    return is_causal_mask("\n  %0 = constant bool[2, 2, 2] {" + two + ", " + other + "}", "2");
  };
  EXPECT_TRUE(batch(two));
  EXPECT_FALSE(batch("true, false, true, false"));
}

TEST(CausalMask, Indices) {
  EXPECT_TRUE(is_causal_index("\n  %0 = le %c, %r: bool[S, S]"));
  EXPECT_TRUE(is_causal_index("\n  %0 = ge %r, %c: bool[S, S]"));
  EXPECT_TRUE(is_causal_index("\n  %1 = gt %c, %r: bool[S, S]\n  %0 = not_ %1: bool[S, S]"));
  EXPECT_TRUE(
      is_causal_index("\n  %1 = lt %r, %c: bool[S, S]\n  %2 = constant i64[] {1}\n  %3 = cast %1 {to = i64}: "
                      "i64[S, S]\n  %0 = sub %2, %3: i64[S, S]"));
  EXPECT_TRUE(
      is_causal_index("\n  %1 = le %c, %r: bool[S, S]\n  %0 = broadcast %1 {shape = [N, S, S]}: bool[N, S, S]"));
  EXPECT_TRUE(is_causal_index("\n  %1 = ge %c, %r: bool[S, S]\n  %0 = transpose %1 {perm = [1, 0]}: bool[S, S]"));
  EXPECT_TRUE(
      is_causal_index("\n  %1 = constant bool[] {true}\n  %2 = le %c, %r: bool[S, S]\n  %0 = and_ %2, %1: bool[S, S]"));
  EXPECT_TRUE(is_causal_index("\n  %1 = le %c, %r: bool[S, S]\n  %2 = reshape %1 {shape = [1, S, S]}: bool[1, S, S]"));
  EXPECT_FALSE(is_causal_index("\n  %0 = lt %c, %r: bool[S, S]"));
  EXPECT_FALSE(is_causal_index("\n  %0 = ge %c, %r: bool[S, S]"));
  EXPECT_FALSE(is_causal_index("\n  %0 = eq %c, %r: bool[S, S]"));
  EXPECT_FALSE(is_causal_index("\n  %0 = le %c, %c: bool[S]"));
  EXPECT_FALSE(is_causal_index("\n  %1 = le %c, %r: bool[S, S]\n  %0 = and_ %b, %1: bool[N, S, S]"));
}

// Keys up to one behind the query, or every other key.
TEST(CausalMask, OtherLines) {
  const std::string one = "\n  %1 = constant i64[] {1}\n  %2 = add %r, %1: i64[S, 1]";
  EXPECT_TRUE(is_causal_index(one + "\n  %0 = lt %c, %2: bool[S, S]"));
  EXPECT_FALSE(is_causal_index(one + "\n  %0 = le %c, %2: bool[S, S]"));
  const std::string twice = "\n  %1 = add %r, %r: i64[S, 1]";
  EXPECT_FALSE(is_causal_index(twice + "\n  %0 = le %c, %1: bool[S, S]"));
  EXPECT_TRUE(is_causal_index(twice + "\n  %2 = add %c, %c: i64[S]\n  %0 = le %2, %1: bool[S, S]"));
  const std::string from =
      "\n  %1 = iota {shape = [S + 1, 1], axis = 0, dtype = i64}: i64[S + 1, 1]\n  %2 = slice %1 "
      "{starts = [1, 0], sizes = [S, 1], steps = [1, 1]}: i64[S, 1]";
  EXPECT_TRUE(is_causal_index(from + "\n  %0 = lt %c, %2: bool[S, S]"));
  EXPECT_FALSE(is_causal_index(from + "\n  %0 = le %c, %2: bool[S, S]"));
}

TEST(CausalMask, SlicesOfATriangle) {
  const std::string stored = "\n  %0 = constant bool[3, 3] {true, false, false, true, true, false, true, true, true}";
  const auto slice = [&](const std::string& starts, const std::string& steps) {
    return is_causal_mask(
        stored + "\n  %1 = slice %0 {starts = [" + starts + "], sizes = [S, S], steps = [" + steps + "]}: bool[S, S]",
        "S");
  };
  EXPECT_TRUE(slice("0, 0", "1, 1"));
  EXPECT_TRUE(slice("1, 1", "1, 1"));
  EXPECT_FALSE(slice("1, 0", "1, 1"));
  EXPECT_FALSE(slice("0, 1", "1, 1"));
  EXPECT_FALSE(slice("0, 0", "2, 1"));
  EXPECT_FALSE(slice("3 - S, 0", "1, 1"));
}

// Whether the value %0 of the lines is true for key j of query i up to j = i + keys - queries. %r and %c number both.
bool is_causal_of(const std::string& queries, const std::string& keys, const std::string& lines) {
  const std::string shape = "[" + queries + ", " + keys + "]";
  const auto graph =
      ir::parse_graph("graph @main(%s: i64" + shape + ") {\n  %r = iota {shape = [" + queries +
                      ", 1], axis = 0, dtype = i64}: i64[" + queries + ", 1]\n  %c = iota {shape = [" + keys +
                      "], axis = 0, dtype = i64}: i64[" + keys + "]" + lines + "\n  return %0 as \"y\"\n}\n");
  EXPECT_TRUE(graph.ok()) << graph.status().str();
  if (!graph.ok()) return false;
  KnownValues values(*graph);
  const Shape all = graph->type(graph->inputs[0]).shape;
  return is_causal(
      values, graph->outputs[0], all[0], all[1], [](double x) { return x == 1; }, [](double x) { return x == 0; });
}

TEST(CausalMask, BehindStoredKeys) {
  const auto behind = [](const std::string& stored, const std::string& op, const std::string& keys) {
    return is_causal_of("S", keys,
                        "\n  %1 = dim {value = [" + stored + "], dtype = i64}: i64[]\n  %2 = add %r, %1: i64[S, 1]" +
                            "\n  %0 = " + op + " %2, %c: bool[S, " + keys + "]");
  };
  EXPECT_TRUE(behind("P", "ge", "P + S"));
  EXPECT_TRUE(behind("P + 1", "gt", "P + S"));
  EXPECT_TRUE(behind("P + Q", "ge", "P + Q + S"));
  EXPECT_FALSE(behind("P", "gt", "P + S"));
  EXPECT_FALSE(behind("P + 1", "ge", "P + S"));
  EXPECT_FALSE(behind("P", "ge", "S"));
  EXPECT_FALSE(behind("P", "ge", "T"));
  EXPECT_FALSE(behind("2*P", "ge", "P + S"));
  EXPECT_FALSE(behind("0", "ge", "P + S"));  // counted from the first key
}

TEST(CausalMask, SlicesBehindStoredKeys) {
  const std::string stored = "\n  %1 = constant bool[3, 3] {true, false, false, true, true, false, true, true, true}";
  const auto slice = [&](const std::string& start) {
    return is_causal_of(
        "S", "P + S",
        stored + "\n  %0 = slice %1 {starts = [" + start + ", 0], sizes = [S, P + S], steps = [1, 1]}: bool[S, P + S]");
  };
  EXPECT_TRUE(slice("P"));
  EXPECT_FALSE(slice("0"));
}

// Of two queries and three keys.
TEST(CausalMask, MoreKeysThanQueries) {
  const auto constant = [](const std::string& rows) {
    return is_causal_of("2", "3", "\n  %0 = constant bool[2, 3] {" + rows + "}");
  };
  EXPECT_TRUE(constant("true, true, false, true, true, true"));
  EXPECT_FALSE(constant("true, false, false, true, true, false"));
  EXPECT_FALSE(constant("true, true, true, true, true, true"));
  EXPECT_FALSE(is_causal_of("3", "2", "\n  %0 = constant bool[3, 2] {false, false, true, false, true, true}"));
}

TEST(CausalMask, DependsOnData) {
  EXPECT_FALSE(
      is_causal_mask("\n  %r = iota {shape = [4, 1], axis = 0, dtype = i64}: i64[4, 1]\n  %0 = le %x, %r: "
                     "bool[N, 4, 4]"));
  const std::string triangle = "\n  %0 = constant bool[2, 2] {true, false, true, true}";
  EXPECT_FALSE(is_causal_mask(triangle + "\n  %1 = or_ %0, %b: bool[N, 2, 2]", "2"));
  EXPECT_FALSE(is_causal_mask(triangle + "\n  %1 = where %0, %x, %x: i64[N, 2, 2]", "2"));
}

// Known extents make tensors of what depends on two index sums, or on an index and a tensor.
TEST(CausalMask, IndicesBesideTensors) {
  const std::string row = "\n  %r = iota {shape = [2, 1], axis = 0, dtype = i64}: i64[2, 1]";
  EXPECT_TRUE(is_causal_mask(row + "\n  %1 = constant i64[2] {0, 1}\n  %0 = ge %r, %1: bool[2, 2]", "2"));
  EXPECT_FALSE(is_causal_mask(row + "\n  %1 = constant i64[2] {0, 2}\n  %0 = ge %r, %1: bool[2, 2]", "2"));
  EXPECT_TRUE(is_causal_mask(
      row + "\n  %c = iota {shape = [2], axis = 0, dtype = i64}: i64[2]\n  %1 = le %c, %r: bool[2, 2]\n  %2 = "
            "constant bool[2, 2] {true, false, true, true}\n  %0 = and_ %1, %2: bool[2, 2]",
      "2"));
}

TEST(CausalMask, OneQueryOrOtherNumbersOfKeys) {
  const auto graph = ir::parse_graph(
      "graph @main() {\n  %0 = constant bool[2, 3] {true, false, false, true, true, false}\n  %1 = constant bool[1, 1] "
      "{true}\n  return %0 as \"a\", %1 as \"b\"\n}\n");
  ASSERT_TRUE(graph.ok()) << graph.status().str();
  KnownValues values(*graph);
  const auto is = [&](std::size_t i, const Dim& queries, const Dim& keys) {
    return is_causal(
        values, graph->outputs[i], queries, keys, [](double x) { return x == 1; }, [](double x) { return x == 0; });
  };
  EXPECT_FALSE(is(0, 2, 3));
  EXPECT_FALSE(is(1, 1, 1));
}

// Maps, concats, sums along an axis and gathers on values that repeat along an axis whose extent is not known.
TEST(KnownValues, AlongUnknownAxes) {
  const auto graph = ir::parse_graph(R"(graph @main(%i: i64[N, 1]) {
  %0 = constant i64[1, 3] {2, 4, 6}
  %1 = broadcast %0 {shape = [N, 3]}: i64[N, 3]
  %2 = slice %1 {starts = [0, 1], sizes = [N, 1], steps = [1, 1]}: i64[N, 1]
  %3 = concat %2, %1 {axis = 1}: i64[N, 4]
  %4 = reshape %3 {shape = [N, 2, 2]}: i64[N, 2, 2]
  %5 = transpose %4 {perm = [2, 0, 1]}: i64[2, N, 2]
  %6 = sub %1, %1: i64[N, 3]
  %7 = cumsum %6 {axis = 1, exclusive = 0, reverse = 0}: i64[N, 3]
  %8 = gather_elements %7, %i {axis = 1}: i64[N, 1]
  %9 = cumsum %1 {axis = 0, exclusive = 0, reverse = 0}: i64[N, 3]
  %10 = reshape %1 {shape = [3 * N]}: i64[3*N]
  %11 = gather_elements %1, %i {axis = 1}: i64[N, 1]
  %12 = cumsum %1 {axis = 1, exclusive = 0, reverse = 0}: i64[N, 3]
  return %5 as "a", %8 as "b", %9 as "c", %10 as "d", %11 as "e", %12 as "f"
}
)");
  ASSERT_TRUE(graph.ok()) << graph.status().str();
  KnownValues values(*graph);
  const auto expect = [&](std::size_t i, const std::vector<int64_t>& shape, const std::vector<int64_t>& elements) {
    const auto* tensor = std::get_if<Tensor>(&values.of(graph->outputs[i]));
    ASSERT_NE(tensor, nullptr) << i;
    EXPECT_EQ(tensor->shape(), shape);
    for (std::size_t k = 0; k < elements.size(); ++k) EXPECT_EQ(tensor->as<int64_t>()[k], elements[k]) << i;
  };
  expect(0, {2, 1, 2}, {4, 4, 2, 6});
  expect(1, {1, 1}, {0});
  expect(5, {1, 3}, {2, 6, 12});
  for (const std::size_t i : {2U, 3U, 4U})
    EXPECT_TRUE(std::holds_alternative<std::monostate>(values.of(graph->outputs[i]))) << i;
}

// The largest of a row of a choice, and comparisons that hold everywhere or nowhere.
TEST(KnownValues, SignsOfSums) {
  const auto graph = ir::parse_graph(R"(graph @main() {
  %i = iota {shape = [S, 1], axis = 0, dtype = i64}: i64[S, 1]
  %j = iota {shape = [1, P + S], axis = 1, dtype = i64}: i64[1, P + S]
  %p = dim {value = [P], dtype = i64}: i64[]
  %n = dim {value = [P + S], dtype = i64}: i64[]
  %row = add %i, %p: i64[S, 1]
  %keep = ge %row, %j: bool[S, P + S]
  %low = constant f32[] {-inf}
  %zero = constant f32[] {0}
  %mask = where %keep, %zero, %low: f32[S, P + S]
  %most = reduce_max %mask {axes = [1]}: f32[S]
  %other = where %keep, %low, %zero: f32[S, P + S]
  %most_other = reduce_max %other {axes = [1]}: f32[S]
  %all = lt %j, %n: bool[1, P + S]
  %none = ge %j, %n: bool[1, P + S]
  %some = gt %j, %p: bool[1, P + S]
  return %most as "a", %most_other as "b", %all as "c", %none as "d", %some as "e"
}
)");
  ASSERT_TRUE(graph.ok()) << graph.status().str();
  KnownValues values(*graph);
  const auto one = [&](std::size_t i) -> const Tensor* {
    const auto* tensor = std::get_if<Tensor>(&values.of(graph->outputs[i]));
    return tensor != nullptr && tensor->num_elements() == 1 ? tensor : nullptr;
  };
  ASSERT_NE(one(0), nullptr);
  EXPECT_EQ(*one(0)->as<float>(), 0);
  EXPECT_EQ(one(1), nullptr);  // the last query has no key behind it
  ASSERT_TRUE(one(2) != nullptr && one(3) != nullptr);
  EXPECT_EQ(*one(2)->as<uint8_t>(), 1);
  EXPECT_EQ(*one(3)->as<uint8_t>(), 0);
  EXPECT_EQ(one(4), nullptr);
}

}  // namespace
}  // namespace fusec::compiler

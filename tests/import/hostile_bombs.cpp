// SPDX-License-Identifier: Apache-2.0
// Small models that ask for very much: elements, terms of formulas, steps.
#include "tests/import/hostile_make.h"

namespace fusec::importer {

namespace {

const std::string kHuge = "1073741824, 1073741824";

std::string range(const std::string& start, const std::string& limit, const std::string& delta) {
  return "a = Constant <" + start + "> () b = Constant <" + limit + "> () c = Constant <" + delta +
         "> () y = Range(a, b, c)";
}

void add_elements(HostileList& list) {
  const std::string x = "float[2, 3] x";
  add_graphs(
      list,
      {
          {"constant_of_shape_bomb", x, ints(kHuge, "y = ConstantOfShape(c)"), "tensor_bytes"},
          {"constant_of_shape_overflow", x, ints(kHuge + ", " + kHuge, "y = ConstantOfShape(c)"), "tensor_bytes"},
          {"constant_of_shape_negative", x, ints("-3", "y = ConstantOfShape(c)"), "-3"},
          {"constant_of_shape_value", x, ints("3", "y = ConstantOfShape <value = float[2] {1, 2}> (c)"), "one element"},
          {"expand_bomb", x, ints("1073741824, 2, 3, 1073741824, 2, 3", "y = Expand(x, c)"), "tensor_bytes"},
          {"tile_bomb", x, ints(kHuge, "y = Tile(x, c)"), "tensor_bytes"},
          {"tile_overflow", x, ints(kInt64Max + ", " + kInt64Max, "y = Tile(x, c)"), "overflow"},
          {"pad_bomb", x, ints(kHuge + ", " + kHuge, "y = Pad(x, c)"), "tensor_bytes"},
          {"pad_overflow", x, ints(kInt64Max + ", 0, " + kInt64Max + ", 0", "y = Pad(x, c)"), "overflow"},
          {"one_hot_bomb", "int64[4] x, float[2] v",
           "c = Constant <value_int = " + kInt64Max + "> () y = OneHot(x, c, v)", "tensor_bytes"},
          {"eye_like_bomb", x, ints(kHuge, "z = ConstantOfShape(c) y = EyeLike(z)"), "tensor_bytes",
           "(ConstantOfShape)"},
          {"concat_bomb", "float[34359738368] x",
           "a = Concat <axis = 0> (x, x, x, x) b = Concat <axis = 0> (a, a, a, a) y = Neg(b)", "tensor_bytes",
           "(Concat)"},
          {"matmul_bomb", "float[1073741824, 1] x, float[1, 1073741824] z", "y = MatMul(x, z)", "tensor_bytes"},
          {"outer_sum_bomb", "float[1073741824, 1] x, float[1, 1073741824] z", "y = Add(x, z)", "tensor_bytes"},
          {"range_bomb", x, range("value_int = 0", "value_int = " + kInt64Max, "value_int = 1"), "overflow"},
          {"range_2_60", x, range("value_int = 0", "value_int = 1152921504606846976", "value_int = 1"), "tensor_bytes"},
          {"range_wide", x, range("value_int = " + kInt64Min, "value_int = " + kInt64Max, "value_int = 1"), "overflow"},
          {"range_delta_0", x, range("value_int = 0", "value_int = 9", "value_int = 0"), "delta"},
          {"range_infinite", x, range("value_float = 0.0", "value_float = 1e38", "value_float = 1e-38"), "length"},
          {"folded_product_bomb", "float[1] x",
           "b = Constant <value_ints = [3000000000]> () a = Mul(b, b) y = ConstantOfShape(a)", "tensor_bytes"},
      });
}

// Thirty symbols, and t29, the sum of the shapes.
struct Sums {
  std::string inputs, nodes;
};
Sums sums_of_symbols() {
  Sums s;
  for (int i = 0; i < 30; ++i) {
    const std::string n = std::to_string(i);
    s.inputs += (i > 0 ? ", float[D" : "float[D") + n + "] x" + n;
    s.nodes += "s" + n + " = Shape(x" + n + ") t" + n + " = Add(s" + n + ", " +
               (i > 0 ? "t" + std::to_string(i - 1) : "s0") + ") ";
  }
  return s;
}

// a<to> = Mul(a<from>, a<from>) and so on.
std::string chain(int length, const std::string& op, const std::string& other) {
  std::string nodes;
  for (int i = 0; i < length; ++i) {
    const std::string from = "a" + std::to_string(i);
    nodes += "a" + std::to_string(i + 1) + " = " + op + "(" + from + ", " + (other.empty() ? from : other) + ") ";
  }
  return nodes;
}

std::string alternating(int length) {
  std::string nodes = "q = Shape(w) a0 = Shape(x) k = Shape(z) ";
  for (int i = 0; i < length; ++i) {
    nodes += "a" + std::to_string(i + 1) + (i % 2 ? " = Min(a" : " = Max(a") + std::to_string(i) +
             (i % 2 ? ", q) " : ", k) ");
  }
  return nodes;
}

void add_formulas(HostileList& list) {
  const Sums sums = sums_of_symbols();
  std::string joined = "c = Concat <axis = 0> (t29";
  for (int i = 0; i < 60; ++i) joined += ", t29";
  std::string lacking;
  for (int i = 0; i < 5000; ++i) lacking += "z" + std::to_string(i) + " = SequenceConstruct(x) ";
  add_graphs(
      list,
      {
          {"symbol_power_bomb", "float[N] x", "a0 = Shape(x) " + chain(80, "Mul", "") + "y = ConstantOfShape(a80)",
           "overflows", "(Mul)"},
          {"polynomial_bomb", sums.inputs,
           sums.nodes + "a0 = Mul(t29, t29) " + chain(40, "Mul", "t29") + "y = ConstantOfShape(a40)", "depend on data"},
          {"product_of_sums_bomb", sums.inputs, sums.nodes + joined + ") y = ConstantOfShape(c)", "very many terms"},
          {"nested_formula_bomb", "float[N] x, float[M] z, float[K] w",
           alternating(20000) + "y = ConstantOfShape(a20000)", "depend on data"},
          {"division_bomb", "float[N] x, float[M] z",
           "k = Shape(z) a0 = Shape(x) " + chain(20000, "Div", "k") + "y = ConstantOfShape(a20000)", "depend on data"},
          {"lacking_ops_bomb", "float[4] x", lacking + "y = Unique(x)", "and 4901 more", "(SequenceConstruct)"},
      });
}

}  // namespace

void add_hostile_bombs(HostileList& list) {
  add_elements(list);
  add_formulas(list);
}

}  // namespace fusec::importer

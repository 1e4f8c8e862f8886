// SPDX-License-Identifier: Apache-2.0
// Writes the identity and the combination step of each reduction combiner as CUDA C++. The operations and their order
// must match ir/eval/combine.cpp and codegen/llvm/combine.cpp, because all of them must give the same bits.

#include <fmt/format.h>

#include "codegen/cuda/expression.h"
#include "ir/kernel/combiner.h"

namespace fusec::codegen::cuda {
namespace {

using ir::Combiner;
using ir::ScalarOp;

// x op y on raw values.
std::string applied(Prelude& prelude, ScalarOp op, DType type, const std::string& x, const std::string& y) {
  return raw_op(prelude, op, type, {widen(prelude, type, x), widen(prelude, type, y)}, type);
}

std::string welford_body(Prelude& prelude, DType t) {
  const auto apply = [&](ScalarOp op, const std::string& x, const std::string& y) {
    return applied(prelude, op, t, x, y);
  };
  const std::string type = register_type(t);
  const auto let = [&](const std::string& name, const std::string& value) {
    return "  const " + type + " " + name + " = " + value + ";\n";
  };
  return "  if (" + widen(prelude, t, "b2") + " == 0) return;\n" + "  if (" + widen(prelude, t, "a2") +
         " == 0) {\n    a0 = b0;\n    a1 = b1;\n    a2 = b2;\n    return;\n  }\n" +
         let("n", apply(ScalarOp::add, "a2", "b2")) + let("w", apply(ScalarOp::div, "b2", "n")) +
         let("d", apply(ScalarOp::sub, "b0", "a0")) + let("step", apply(ScalarOp::mul, "d", "w")) +
         let("square", apply(ScalarOp::mul, "d", "d")) + let("share", apply(ScalarOp::mul, "a2", "w")) +
         let("spread", apply(ScalarOp::mul, "square", "share")) + let("both", apply(ScalarOp::add, "a1", "b1")) +
         "  a0 = " + apply(ScalarOp::add, "a0", "step") + ";\n  a1 = " + apply(ScalarOp::add, "both", "spread") +
         ";\n  a2 = n;\n";
}

std::string max_sum_body(Prelude& prelude, DType t) {
  const std::string type = register_type(t), one = literal({t, 1, 0});
  const auto wide = [&](const std::string& x) { return widen(prelude, t, x); };
  const auto factor = [&](const std::string& m) {
    const std::string difference = applied(prelude, ScalarOp::sub, t, m, "m");
    const std::string e = raw_op(prelude, ScalarOp::exp, t, {wide(difference)}, t);
    return wide(m) + " == " + wide("m") + " ? " + operand(one) + " : " + e;
  };
  const auto let = [&](const std::string& name, const std::string& value) {
    return "  const " + type + " " + name + " = " + value + ";\n";
  };
  return let("m", applied(prelude, ScalarOp::max, t, "a0", "b0")) + let("f", factor("a0")) + let("g", factor("b0")) +
         let("x", applied(prelude, ScalarOp::mul, t, "a1", "f")) +
         let("y", applied(prelude, ScalarOp::mul, t, "b1", "g")) +
         "  a0 = m;\n  a1 = " + applied(prelude, ScalarOp::add, t, "x", "y") + ";\n";
}

// NaN wins over numbers, then the better value wins, then the index that the combiner prefers.
std::string arg_body(Prelude& prelude, const CombineOp& op) {
  const DType t = op.types[0];
  const std::string a = widen(prelude, t, "a0"), b = widen(prelude, t, "b0");
  const bool greatest = op.combiner == Combiner::argmax || op.combiner == Combiner::argmax_last;
  const bool last = op.combiner == Combiner::argmax_last || op.combiner == Combiner::argmin_last;
  const char *better = greatest ? "<" : ">", *worse = greatest ? ">" : "<";
  std::string wins = fmt::format("{0} {2} {1} || (!({0} {3} {1}) && a1 {4} b1)", a, b, better, worse, last ? "<" : ">");
  if (is_float(t)) wins = fmt::format("({0} != {0}) != ({1} != {1}) ? {1} != {1} : {2}", a, b, wins);
  return "  if (" + wins + ") {\n    a0 = b0;\n    a1 = b1;\n  }\n";
}

std::string tuple_function(Prelude& prelude, const CombineOp& op) {
  std::string name = ir::to_string(op.combiner);
  for (const DType type : op.types) name += std::string("_") + to_string(type);
  if (prelude.has(name)) return name;
  const std::string body = op.combiner == Combiner::welford   ? welford_body(prelude, op.types[0])
                           : op.combiner == Combiner::max_sum ? max_sum_body(prelude, op.types[0])
                                                              : arg_body(prelude, op);
  Parts parameters;
  for (const bool first : {true, false}) {
    for (std::size_t i = 0; i < op.types.size(); ++i) {
      parameters.push_back(register_type(op.types[i]) + (first ? "& a" : " b") + std::to_string(i));
    }
  }
  prelude.define(name, "FUNCTION void " + name + "(" + joined(parameters, ", ") + ") {\n" + body + "}\n");
  return name;
}

}  // namespace

Parts identity(const CombineOp& op) {
  Parts out;
  for (const ir::Constant& c : identity_constants(op.combiner, op.types)) out.push_back(literal(c));
  return out;
}

std::string combine(Prelude& prelude, const CombineOp& op, const Parts& a, const Parts& b) {
  if (op.types.size() == 1)
    return a[0] + " = " + applied(prelude, combining_op(op.combiner), op.types[0], a[0], b[0]) + ";";
  return tuple_function(prelude, op) + "(" + joined(a, ", ") + ", " + joined(b, ", ") + ");";
}

}  // namespace fusec::codegen::cuda

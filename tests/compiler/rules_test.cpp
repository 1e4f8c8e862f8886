// SPDX-License-Identifier: Apache-2.0
// The algebra of apply_rules on values: both sides of each rule have equal bits.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/passes/pipeline.h"
#include "compiler/passes/rewriter.h"
#include "ir/eval/graph.h"
#include "ir/ops/cast.h"
#include "ir/ops/reference.h"

namespace fusec::compiler {
namespace {

using ir::DefInputs;
using ir::DefNode;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kSpecials[] = {0.0, -0.0, 1, -1, 0.5, -0.5, 3, -7, 1e300, -1e300, 5e-324, -5e-324, kInf, -kInf, kNan};

// The node with definitions replaced by what they stand for, as the compiler computes them.
DefNode expanded(const DefNode& node, const std::vector<DefNode>* operands = nullptr) {
  if (node.kind == DefNode::Kind::operand)
    return operands != nullptr ? operands->at(static_cast<size_t>(node.operand)) : node;
  if (node.kind != DefNode::Kind::op) return node;
  DefNode out = node;
  for (DefNode& arg : out.args) arg = expanded(arg, operands);
  return info(node.op).is_definition ? expanded(ir::definition(node.op), &out.args) : out;
}

bool equal_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

void check(const Rule& rule, size_t number, const DefInputs& in) {
  const double from = eval_definition(expanded(rule.from), in), to = eval_definition(expanded(rule.to), in);
  EXPECT_TRUE(equal_bits(from, to)) << "rule " << number << ": " << from << " becomes " << to << " for "
                                    << in.operands[0] << ", " << in.operands[1] << ", " << in.operands[2];
}

TEST(Rules, BothSidesHaveEqualBits) {
  ASSERT_FALSE(exact_rules().empty());
  for (size_t number = 0; number < exact_rules().size(); ++number) {
    const Rule& rule = exact_rules()[number];
    const bool is_bool = info(rule.from.op).typing == ir::Typing::bool_;
    for (const double a : kSpecials) {
      if (is_bool && !(equal_bits(a, 0) || a == 1)) continue;
      check(rule, number, {{a, -2, 2}});
      check(rule, number, {{a, -0.0, 0.0}});
      check(rule, number, {{a, kNan, kInf}});
      if (HasFailure()) return;
    }
  }
}

TEST(Rules, FormsOfGeluAreTheOp) {
  EXPECT_EQ(gelu_rules().size(), 24U);
  for (const Rule& rule : gelu_rules()) {
    EXPECT_EQ(rule.to.op, ir::ScalarOp::gelu_tanh);
    for (double x = -8; x <= 8; x += 0.125) {
      const double from = eval_definition(expanded(rule.from), {{x, 0, 0}});
      EXPECT_NEAR(from, ir::eval_scalar(ir::ScalarOp::gelu_tanh, x), 1e-14) << x;
    }
  }
  EXPECT_EQ(erf_gelu_rules().size(), 6U);
  for (const Rule& rule : erf_gelu_rules()) {
    EXPECT_EQ(rule.to.op, ir::ScalarOp::gelu);
    for (double x = -8; x <= 8; x += 0.125) {
      const double from = eval_definition(expanded(rule.from), {{x, 0, 0}});
      EXPECT_NEAR(from, ir::eval_scalar(ir::ScalarOp::gelu, x), 1e-14) << x;
    }
  }
}

// The node over a, which is x; b and c are numbers.
ir::ValueId build(ir::Graph& g, const DefNode& node, ir::ValueId x, DType dtype) {
  if (node.kind == DefNode::Kind::number) return add_scalar_constant(g, dtype, node.number);
  if (node.kind == DefNode::Kind::operand)
    return node.operand == 0 ? x : add_scalar_constant(g, dtype, node.operand == 1 ? 2 : 7);
  std::vector<ir::ValueId> inputs;
  for (const DefNode& arg : node.args) inputs.push_back(build(g, arg, x, dtype));
  return add_node(g, node.op, inputs);
}

bool takes(const DefNode& node, DType dtype) {
  const ir::Typing typing = info(node.op).typing;
  if (node.kind == DefNode::Kind::op &&
      (typing == ir::Typing::float_ || (typing == ir::Typing::bool_) != (dtype == DType::bool_)))
    return false;
  return std::all_of(node.args.begin(), node.args.end(), [&](const DefNode& arg) { return takes(arg, dtype); });
}

// Integers wrap: all 256 values of the narrowest, each with some high bits, of every type.
TEST(Rules, IntegersKeepTheirBits) {
  int tried = 0;
  for (const DType dtype :
       {DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64, DType::u64}) {
    for (const Rule& rule : exact_rules()) {
      if (!takes(rule.from, dtype)) continue;
      ir::Graph g;
      const ir::ValueId x = add_input(g, "x", {dtype, {Dim(256)}});
      add_output(g, build(g, rule.from, x, dtype), "y");
      Tensor in = Tensor::make(dtype, {256}).value();
      for (int i = 0; i < 256; ++i)
        std::memset(in.as<char>() + i * static_cast<int>(size_of(dtype)), i, size_of(dtype));
      const std::vector<Tensor> want = evaluate(g, {in}).value();
      ASSERT_TRUE(run_pass(*find_pass("apply_rules"), g, {Target{}, Options{}}).ok());
      const std::vector<Tensor> got = evaluate(compact(g), {in}).value();
      EXPECT_EQ(std::memcmp(want[0].data(), got[0].data(), got[0].bytes()), 0)
          << info(rule.from.op).name << " of " << to_string(dtype);
      ++tried;
    }
  }
  EXPECT_GT(tried, 60);
}

// Powers as products, quotients and roots: special values as pow has them, others within the bound of pow.
TEST(Rules, PowersOfSpecialValuesAreThoseOfPow) {
  std::vector<Rule> rules = power_rules();
  rules.insert(rules.end(), float_power_rules().begin(), float_power_rules().end());
  ASSERT_GE(rules.size(), 6u);
  std::vector<double> values(std::begin(kSpecials), std::end(kSpecials));
  for (double v = 1e-290; v < 1e290; v *= 7.3) values.push_back(v);
  for (const Rule& rule : rules) {
    const double exponent = rule.from.args.at(1).number;
    for (const double a : values) {
      const double from = std::pow(a, exponent), to = eval_definition(expanded(rule.to), {{a, 0, 0}});
      const bool is_normal = std::isnormal(from) && std::isnormal(to);
      if (is_normal)
        EXPECT_LE(std::abs(to - from), 0x1p-50 * std::abs(from)) << a << " to the power " << exponent;
      else if (!(std::abs(from) < 1e-300))  // a denormal may become 0
        EXPECT_TRUE(equal_bits(from, to)) << a << " to the power " << exponent << ": " << from << " becomes " << to;
      else
        EXPECT_TRUE(std::abs(to) < 1e-300 && std::signbit(to) == std::signbit(from)) << a << ", " << exponent;
    }
  }
}

// The compiled dtypes, each with its own infinity: what the graph computes stays what it was.
TEST(Rules, PowersOfEveryFloatKeepTheirSpecialValues) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    for (const double exponent : {0.0, 0.5, -0.5, -1.0, -2.0, 1.0, 2.0, 3.0, 4.0}) {
      ir::Graph g;
      const ir::ValueId x = add_input(g, "x", {dtype, {Dim(9)}});
      add_output(g, add_node(g, ir::ScalarOp::pow, {x, add_scalar_constant(g, dtype, exponent)}), "y");
      Tensor in = Tensor::make(dtype, {9}).value();
      const double values[] = {0.0, -0.0, kInf, -kInf, kNan, 4, -4, 0.25, -1};
      for (int i = 0; i < 9; ++i)
        ir::store_double(dtype, in.as<char>() + i * static_cast<int>(size_of(dtype)), values[i]);
      const std::vector<Tensor> want = evaluate(g, {in}).value();
      const Result<bool> changed = run_pass(*find_pass("apply_rules"), g, {Target{}, Options{}});
      ASSERT_TRUE(changed.ok());
      EXPECT_TRUE(*changed) << exponent;
      const std::vector<Tensor> got = evaluate(compact(g), {in}).value();
      for (int i = 0; i < 9; ++i) {
        const int at = i * static_cast<int>(size_of(dtype));
        const double a = ir::load_double(dtype, want[0].as<char>() + at),
                     b = ir::load_double(dtype, got[0].as<char>() + at);
        EXPECT_TRUE(equal_bits(a, b)) << to_string(dtype) << " " << values[i] << " to the power " << exponent << ": "
                                      << a << " becomes " << b;
      }
    }
  }
}

// A constant close to a root is none: the power of a large number differs.
TEST(Rules, ExponentsCloseToAHalfStayPowers) {
  ir::Graph g;
  const ir::ValueId x = add_input(g, "x", {DType::f32, {Dim(8)}});
  add_output(g, add_node(g, ir::ScalarOp::pow, {x, add_scalar_constant(g, DType::f32, 0.5 + 0x1p-24)}), "y");
  const Result<bool> changed = run_pass(*find_pass("apply_rules"), g, {Target{}, Options{}});
  ASSERT_TRUE(changed.ok());
  EXPECT_FALSE(*changed);
}

// A cube is two products where what lies between them stays in f32: not of 16-bit types with a kernel for each op.
TEST(Rules, CubesAreProductsWhereTheSquareIsNotRounded) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    for (const bool fuse : {true, false}) {
      ir::Graph g;
      const ir::ValueId x = add_input(g, "x", {dtype, {Dim(8)}});
      add_output(g, add_node(g, ir::ScalarOp::pow, {x, add_scalar_constant(g, dtype, 3)}), "y");
      Options options;
      options.fuse = fuse;
      const Result<bool> changed = run_pass(*find_pass("apply_rules"), g, {Target{}, options});
      ASSERT_TRUE(changed.ok());
      EXPECT_EQ(*changed, fuse || dtype == DType::f32) << to_string(dtype);
    }
  }
}

}  // namespace
}  // namespace fusec::compiler

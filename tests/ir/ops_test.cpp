// SPDX-License-Identifier: Apache-2.0
// The op tables against themselves: definitions and gradients against the independent references.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "ir/ops/cast.h"
#include "ir/ops/op.h"
#include "ir/ops/reference.h"

namespace fusec::ir {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

std::vector<ScalarOp> ops() {
  std::vector<ScalarOp> out;
  for (std::size_t i = 0; i < all_scalar_ops().size(); ++i) out.push_back(static_cast<ScalarOp>(i));
  return out;
}

double evaluate(ScalarOp op, const DefInputs& in) {
  return eval_scalar(op, in.operands[0], in.operands[1], in.operands[2]);
}

TEST(Ops, NamesFindTheirRows) {
  for (ScalarOp op : ops()) EXPECT_EQ(find_scalar_op(info(op).name), op) << info(op).name;
  for (const TensorOpInfo& row : all_tensor_ops()) {
    ASSERT_TRUE(find_tensor_op(row.name).has_value()) << row.name;
    EXPECT_EQ(info(*find_tensor_op(row.name)).name, row.name);
  }
  EXPECT_FALSE(find_scalar_op("no_such_op").has_value());
  EXPECT_EQ(info(ScalarOp::silu).cost, info(ScalarOp::sigmoid).cost + info(ScalarOp::mul).cost);
}

TEST(Ops, Typing) {
  EXPECT_TRUE(accepts(ScalarOp::add, DType::i8));
  EXPECT_FALSE(accepts(ScalarOp::add, DType::bool_));
  EXPECT_FALSE(accepts(ScalarOp::exp, DType::i32));
  EXPECT_TRUE(accepts(ScalarOp::where, DType::bool_));
  EXPECT_EQ(result_type(ScalarOp::lt, DType::f16, DType::f16), DType::bool_);
  EXPECT_EQ(result_type(ScalarOp::cast, DType::f16, DType::i8), DType::i8);
  EXPECT_EQ(result_type(ScalarOp::where, DType::f16, DType::f16), DType::f16);
}

bool takes_floats(ScalarOp op) { return accepts(op, DType::f32) && op != ScalarOp::cast; }

// Calls f with all operands from a few values, all of them halves.
void for_small_operands(const std::function<void(double, double, double)>& f) {
  for (const double a : {-3.0, -1.5, -0.0, 0.0, 0.25, 1.0, 2.0, kInfinity, kNotANumber}) {
    for (const double b : {-2.0, -0.0, 0.0, 0.5, 1.0, 4.0, -kInfinity}) {
      for (const double c : {-4.0, 0.0, 0.75, 5.0}) f(a, b, c);
    }
  }
}

bool is_integer(double x) { return !std::isfinite(x) || x == std::trunc(x); }

TEST(Ops, CommutativeOpsAre) {
  for (ScalarOp op : ops()) {
    if (!has(op, OpFlag::commutative)) continue;
    ASSERT_EQ(info(op).arity, 2) << info(op).name;
    for_small_operands([&](double a, double b, double) {
      if (!takes_floats(op)) return;
      const double x = eval_scalar(op, a, b), y = eval_scalar(op, b, a);
      EXPECT_TRUE((std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y))) << info(op).name;
    });
    for (const int64_t a : {-7, 0, 3}) {
      EXPECT_TRUE(!accepts(op, DType::i32) ||
                  eval_scalar(op, DType::i32, a, 5) == eval_scalar(op, DType::i32, int64_t{5}, a))
          << info(op).name;
    }
    EXPECT_TRUE(!accepts(op, DType::bool_) ||
                eval_scalar(op, true, false, false) == eval_scalar(op, false, true, false))
        << info(op).name;
  }
}

TEST(Ops, FlagsOfResultsHold) {
  for (ScalarOp op : ops()) {
    if (!takes_floats(op)) continue;
    for_small_operands([&](double a, double b, double c) {
      const double y = eval_scalar(op, a, b, c);
      const bool integers = is_integer(a) && is_integer(b) && is_integer(c);
      EXPECT_TRUE(!has(op, OpFlag::makes_integers) || is_integer(y)) << info(op).name << " of " << a;
      EXPECT_TRUE(!has(op, OpFlag::keeps_integers) || !integers || is_integer(y)) << info(op).name << " of " << a;
      EXPECT_TRUE(!has(op, OpFlag::exact_on_halves) || std::isnan(y) || f32_from_f16(f16_from_f64(y)) == y)
          << info(op).name << " of " << a;
    });
  }
}

// Tolerance relative to the largest value that the expression adds or subtracts, hence the absolute part.
void expect_close(double got, double expected, double tolerance, const std::string& where) {
  if (std::isnan(expected) || std::isinf(expected)) {
    EXPECT_TRUE(std::isnan(expected) ? std::isnan(got) : got == expected)
        << where << ": " << got << " against " << expected;
    return;
  }
  EXPECT_NEAR(got, expected, tolerance * std::max(1.0, std::fabs(expected))) << where;
}

std::string where(ScalarOp op, const DefInputs& in) {
  std::string out(info(op).name);
  for (int i = 0; i < info(op).arity; ++i) out += " " + std::to_string(in.operands[i]);
  return out;
}

DefInputs sample(ScalarOp op, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform(info(op).domain_lo, info(op).domain_hi);
  DefInputs in;
  for (double& operand : in.operands) operand = uniform(random);
  return in;
}

TEST(Ops, DefinitionsMatchTheirReferences) {
  std::mt19937_64 random(1);
  for (ScalarOp op : ops()) {
    if (!info(op).is_definition) continue;
    for (int i = 0; i < 2000; ++i) {
      const DefInputs in = sample(op, random);
      expect_close(eval_definition(definition(op), in), evaluate(op, in), 4e-14, where(op, in));
      if (HasFailure()) return;
    }
  }
}

// Both sides have the limits of the function, or both are NaN; where one of them is an indeterminate form (inf * 0),
// the definition decides, so only agreement of finite answers is asked for there.
TEST(Ops, DefinitionsMatchAtSpecialValues) {
  const double specials[] = {0.0,   -0.0,   kInfinity, -kInfinity, kNotANumber, 5e-324, -1e-310,
                             1e-30, -1e-30, 1,         -1,         3,           -3};
  for (ScalarOp op : ops()) {
    if (!info(op).is_definition) continue;
    const double middle = 0.5 * (info(op).domain_lo + info(op).domain_hi);
    for (double a : specials) {
      DefInputs in;
      in.operands[0] = a;
      in.operands[1] = in.operands[2] = middle == 0 ? 1 : middle;
      const double got = eval_definition(definition(op), in), expected = evaluate(op, in);
      if (std::isnan(a)) {
        EXPECT_EQ(std::isnan(got), std::isnan(expected)) << where(op, in) << ": " << got << " against " << expected;
        continue;
      }
      if (std::isinf(a) && (std::isnan(got) || std::isnan(expected))) continue;
      expect_close(got, expected, 1e-14, where(op, in));
    }
  }
}

// Central differences in double; points within the step of a kink are skipped by comparing two step sizes.
void check_gradient(ScalarOp op, int operand, const DefNode& gradient, DefInputs in) {
  const double x = in.operands[operand];
  const auto at = [&](double v) {
    DefInputs moved = in;
    moved.operands[operand] = v;
    return evaluate(op, moved);
  };
  const auto slope = [&](double h) { return (at(x + h) - at(x - h)) / (2 * h); };
  const double h = 1e-5 * std::max(1.0, std::fabs(x)), expected = slope(h);
  if (std::fabs(slope(h / 4) - expected) > 1e-5 * std::max(1.0, std::fabs(expected))) return;
  in.y = evaluate(op, in);
  in.dy = 1.25;
  EXPECT_NEAR(eval_definition(gradient, in), 1.25 * expected, 2e-5 * std::max(1.0, std::fabs(expected)))
      << where(op, in) << " by operand " << operand;
}

TEST(Ops, GradientsMatchFiniteDifferences) {
  std::mt19937_64 random(2);
  for (ScalarOp op : ops()) {
    const auto& all = gradients(op);
    if (all.empty()) continue;
    ASSERT_EQ(static_cast<int>(all.size()), info(op).arity) << info(op).name;
    for (int i = 0; i < 300; ++i) {
      DefInputs in = sample(op, random);
      // The gradient is meant for a proper interval.
      if (op == ScalarOp::clamp && in.operands[1] > in.operands[2]) std::swap(in.operands[1], in.operands[2]);
      if (info(op).typing == Typing::select) in.operands[0] = i % 2;
      for (int k = 0; k < info(op).arity; ++k) {
        if (all[static_cast<std::size_t>(k)]) check_gradient(op, k, *all[static_cast<std::size_t>(k)], in);
      }
      if (HasFailure()) return;
    }
  }
}

TEST(Ops, DifferentiableFloatOpsHaveGradients) {
  for (ScalarOp op : ops()) {
    if (info(op).typing != Typing::float_ && !info(op).is_definition) continue;
    EXPECT_FALSE(gradients(op).empty()) << info(op).name;
  }
}

TEST(Ops, DefinitionParser) {
  DefInputs in;
  in.operands[0] = 5;
  in.operands[1] = 2;
  in.y = 7;
  EXPECT_EQ(eval_definition(parse_definition("a - b - 1"), in), 2);
  EXPECT_EQ(eval_definition(parse_definition("a - (b - 1)"), in), 4);
  EXPECT_EQ(eval_definition(parse_definition("a + b*y/2"), in), 12);
  EXPECT_EQ(eval_definition(parse_definition("where(gt(a, b), 1.5e1, -3)"), in), 15);
  for (const char* text : {"", "a +", "foo(a)", "max(a)", "d", "a b", "(a", "max(a, b"}) {
    EXPECT_ANY_THROW(parse_definition(text)) << text;
  }
}

TEST(Reference, SpecialValues) {
  EXPECT_TRUE(std::isnan(eval_scalar(ScalarOp::max, 1.0, kNotANumber)));
  EXPECT_TRUE(std::isnan(eval_scalar(ScalarOp::min, kNotANumber, 1.0)));
  EXPECT_TRUE(std::isnan(eval_scalar(ScalarOp::clamp, kNotANumber, 0.0, 1.0)));
  EXPECT_TRUE(std::isnan(eval_scalar(ScalarOp::relu, kNotANumber)));
  EXPECT_TRUE(std::isnan(eval_scalar(ScalarOp::sign, kNotANumber)));
  EXPECT_FALSE(std::signbit(eval_scalar(ScalarOp::max, -0.0, 0.0)));
  EXPECT_TRUE(std::signbit(eval_scalar(ScalarOp::min, 0.0, -0.0)));
  EXPECT_EQ(eval_scalar(ScalarOp::clamp, 5.0, 3.0, 1.0), 1);
  EXPECT_EQ(eval_scalar(ScalarOp::round, 2.5), 2);
  EXPECT_EQ(eval_scalar(ScalarOp::round, -1.5), -2);
  EXPECT_EQ(eval_scalar(ScalarOp::mod, -7.0, 3.0), 2);
  EXPECT_EQ(eval_scalar(ScalarOp::fmod, -7.0, 3.0), -1);
  EXPECT_EQ(eval_scalar(ScalarOp::where, 0.0, 1.0, 2.0), 2);
  EXPECT_TRUE(eval_scalar(ScalarOp::xor_, true, false, false));
}

TEST(Reference, Integers) {
  struct Case {
    ScalarOp op;
    DType dtype;
    int64_t a, b, expected;
  };
  const Case cases[] = {
      {ScalarOp::div, DType::i32, -7, 2, -3},
      {ScalarOp::div, DType::i32, 7, 0, 0},
      {ScalarOp::div, DType::i32, INT32_MIN, -1, INT32_MIN},
      {ScalarOp::div, DType::i64, INT64_MIN, -1, INT64_MIN},
      {ScalarOp::div, DType::u64, -1, 2, INT64_MAX},
      {ScalarOp::mod, DType::i32, -7, 3, 2},
      {ScalarOp::mod, DType::i32, 7, -3, -2},
      {ScalarOp::mod, DType::i32, -7, 0, -7},
      {ScalarOp::mod, DType::i8, -128, -1, 0},
      {ScalarOp::fmod, DType::i32, -7, 3, -1},
      {ScalarOp::fmod, DType::u8, 7, 0, 7},
      {ScalarOp::add, DType::i8, 127, 1, -128},
      {ScalarOp::mul, DType::i64, INT64_MAX, 2, -2},
      {ScalarOp::neg, DType::u8, 1, 0, 255},
      {ScalarOp::abs, DType::i16, -32768, 0, -32768},
      {ScalarOp::sign, DType::i16, -5, 0, -1},
      {ScalarOp::sign, DType::u16, 5, 0, 1},
      {ScalarOp::pow, DType::i32, -3, 3, -27},
      {ScalarOp::pow, DType::i32, 2, -1, 0},
      {ScalarOp::pow, DType::i32, -1, -3, -1},
      {ScalarOp::pow, DType::u8, 2, 8, 0},
      {ScalarOp::shl, DType::i32, 1, 31, INT32_MIN},
      {ScalarOp::shl, DType::i32, 1, 32, 0},
      {ScalarOp::shr, DType::i32, -8, 1, -4},
      {ScalarOp::shr, DType::i32, -8, 40, 0},
      {ScalarOp::shr, DType::u64, -1, 63, 1},
      {ScalarOp::shr, DType::u8, 255, 8, 0},
      {ScalarOp::shl, DType::i32, 1, -1, 0},
      {ScalarOp::lt, DType::u64, -1, 1, 0},
      {ScalarOp::lt, DType::i64, -1, 1, 1},
      {ScalarOp::max, DType::u64, -1, 1, -1},
      {ScalarOp::bit_not, DType::u8, 1, 0, 254},
      {ScalarOp::relu, DType::i8, -3, 0, 0},
      {ScalarOp::square, DType::i8, 16, 0, 0},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(eval_scalar(c.op, c.dtype, c.a, c.b), c.expected)
        << info(c.op).name << " " << to_string(c.dtype) << " " << c.a << " " << c.b;
  }
  EXPECT_EQ(eval_scalar(ScalarOp::clamp, DType::i32, 9, 1, 4), 4);
  EXPECT_EQ(eval_scalar(ScalarOp::where, DType::u64, 1, -1, 4), -1);
  EXPECT_ANY_THROW(eval_scalar(ScalarOp::exp, DType::i32, 1));
}

TEST(Markdown, HasEveryOp) {
  const std::string page = ops_markdown();
  for (ScalarOp op : ops()) EXPECT_NE(page.find("| `" + std::string(info(op).name) + "` |"), std::string::npos);
  for (const TensorOpInfo& row : all_tensor_ops())
    EXPECT_NE(page.find("| `" + std::string(row.name) + "` |"), std::string::npos);
}

}  // namespace
}  // namespace fusec::ir

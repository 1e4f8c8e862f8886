// SPDX-License-Identifier: Apache-2.0
// The formulas that GPUs compute functions by, and the kernel ops that they are made of: every op rounds to the dtype,
// and what GPUs only approximate is exact here.
#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <random>

#include "ir/eval/combine.h"
#include "ir/ops/op.h"
#include "ir/ops/reference.h"

namespace fusec::ir {
namespace {

constexpr double kHuge = std::numeric_limits<double>::infinity();

struct Typed {
  Number value;
  DType type;
};

// Rounds every op as compiled code does. Functions inside are computed by their own formulas.
Number eval_formula(ScalarOp op, DType type, Number a);

Typed eval_step(const DefNode& node, DType type, Number a, const std::vector<Typed>& steps) {
  const DType own = node.is_bits ? DType::i32 : type;
  if (node.kind == DefNode::Kind::number)
    return {make_number({own, node.number, static_cast<int64_t>(node.number)}), own};
  if (node.kind == DefNode::Kind::operand) return {a, type};
  if (node.kind == DefNode::Kind::step) return steps[static_cast<std::size_t>(node.operand)];
  Number args[3];
  DType last = type;
  for (std::size_t i = 0; i < node.args.size(); ++i) {
    const Typed arg = eval_step(node.args[i], type, a, steps);
    args[i] = arg.value;
    last = arg.type;
  }
  const DType result = result_type(node.op, last, last);
  if (gpu_formula(node.op, last) != nullptr) return {eval_formula(node.op, last, args[0]), result};
  return {apply(node.op, last, result, args, node.args.size()), result};
}

Number eval_formula(ScalarOp op, DType type, Number a) {
  std::vector<Typed> steps;
  for (const DefNode& step : *gpu_formula(op, type)) steps.push_back(eval_step(step, type, a, steps));
  return steps.back().value;
}

// In units of the last place of `want`, rounded to f32.
double error_in_ulp(double got, double want) {
  const auto rounded = static_cast<double>(static_cast<float>(want));
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : kHuge;
  if (got == rounded) return 0;
  if (std::isinf(got) || std::isinf(rounded)) return kHuge;
  const int exponent = want == 0 ? -126 : std::max(-126, std::ilogb(want));
  return std::fabs(got - want) / std::ldexp(1.0, exponent - 23);
}

std::vector<ScalarOp> functions_with_formula(DType type) {
  std::vector<ScalarOp> out;
  for (std::size_t i = 0; i < all_scalar_ops().size(); ++i) {
    if (gpu_formula(static_cast<ScalarOp>(i), type) != nullptr) out.push_back(static_cast<ScalarOp>(i));
  }
  return out;
}

TEST(GpuFormulas, KeepTheBoundsOfTheirRows) {
  EXPECT_EQ(functions_with_formula(DType::f32).size(), 6u);
  for (const ScalarOp op : functions_with_formula(DType::f32)) {
    double worst = 0;
    float where = 0;
    for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 60013) {  // of every exponent and sign
      const auto a = std::bit_cast<float>(static_cast<uint32_t>(bits));
      const double error = error_in_ulp(eval_formula(op, DType::f32, {a, 0}).f, eval_scalar(op, a));
      if (!(error <= worst)) worst = error, where = a;
    }
    EXPECT_LE(worst, info(op).ulp + 0.5) << info(op).name << " of " << where;
  }
}

TEST(GpuFormulas, SpecialValues) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const DType type : {DType::f32, DType::f64}) {
    for (const ScalarOp op : functions_with_formula(type)) {
      for (const double a : {0.0, -0.0, 1.0, -1.0, kInf, -kInf, std::nan(""), 0.55, 0.9, 10.8, 15.0, 3e38, 1e-45}) {
        const double operand = type == DType::f32 ? static_cast<double>(static_cast<float>(a)) : a;
        const double got = eval_formula(op, type, {operand, 0}).f, want = eval_scalar(op, operand);
        EXPECT_LE(error_in_ulp(got, want), info(op).ulp + 0.5) << info(op).name << " of " << a << ": " << got;
        EXPECT_TRUE(std::isnan(want) || std::signbit(got) == std::signbit(want)) << info(op).name << " of " << a;
      }
    }
  }
}

TEST(GpuFormulas, Parser) {
  const Formula steps = parse_formula("x = a*0x1.8p-1; bits = shl(to_bits(x), 2) + 3; x = x - -1; from_bits(bits) * x");
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[0].args[1].number, 0.75);
  EXPECT_FALSE(steps[0].is_bits);
  EXPECT_TRUE(steps[1].is_bits);
  EXPECT_TRUE(steps[1].args[1].is_bits);
  EXPECT_EQ(steps[2].args[1].number, -1);
  EXPECT_FALSE(steps[3].is_bits);
  EXPECT_EQ(steps[3].args[1].operand, 2);  // the later x
}

float fused_down(float a, float b, float c) {
  std::fesetround(FE_DOWNWARD);
  volatile float x = a;  // the compiler knows no rounding modes
  volatile float out = std::fmaf(x, b, c);
  std::fesetround(FE_TONEAREST);
  return out;
}

TEST(KernelOps, FusedSumsAreRoundedOnce) {
  std::mt19937 random(4);
  const auto number = [&] {
    const auto bits = static_cast<uint32_t>(random());
    return std::bit_cast<float>((bits & 0x87ffffff) + 0x3c000000);
  };
  for (int i = 0; i < 200000; ++i) {
    const float a = number(), b = number(), near = a * b;
    // Most sums cancel, or end close to the middle of two numbers.
    const float c = i % 3 == 0 ? number() : i % 3 == 1 ? -near : near * 0x1p-24f;
    EXPECT_EQ(static_cast<float>(eval_scalar(ScalarOp::fma, a, b, c)), std::fmaf(a, b, c)) << a << " " << b << " " << c;
    EXPECT_EQ(static_cast<float>(eval_scalar(ScalarOp::fma_down, a, b, c)), fused_down(a, b, c));
  }
}

TEST(KernelOps, AZeroThatIsRoundedDownIsNegativeUnlessBothPartsArePositive) {
  for (const float a : {-1.0f, -0.0f, 0.0f, 1.0f}) {
    for (const float b : {-1.0f, 0.0f, 1.0f}) {
      for (const float c : {-a * b, -0.0f, 0.0f}) {
        const auto got = static_cast<float>(eval_scalar(ScalarOp::fma_down, a, b, c));
        EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(fused_down(a, b, c)))
            << a << " " << b << " " << c;
      }
    }
  }
}

TEST(KernelOps, Values) {
  EXPECT_EQ(eval_scalar(ScalarOp::saturate, 0.5), 0.5);
  EXPECT_EQ(eval_scalar(ScalarOp::saturate, 7), 1);
  EXPECT_EQ(eval_scalar(ScalarOp::saturate, std::nan("")), 0);
  EXPECT_EQ(eval_scalar(ScalarOp::copysign, 3, -0.0), -3);
  EXPECT_EQ(eval_scalar(ScalarOp::exp2_approx, -3), 0.125);
  EXPECT_EQ(eval_scalar(ScalarOp::exp2_approx, -127), 0);
  EXPECT_EQ(eval_scalar(ScalarOp::rcp_approx, 4), 0.25);
  EXPECT_EQ(eval_scalar(ScalarOp::rcp_approx, 0x1p-127), std::numeric_limits<double>::infinity());
  EXPECT_EQ(eval_scalar(ScalarOp::rcp_approx, -0x1p127), 0);
  const Number one{1, 0};
  EXPECT_EQ(apply(ScalarOp::to_bits, DType::f32, DType::i32, &one, 1).i, 0x3f800000);
  const Number bits{0, -0x3f800000};
  EXPECT_EQ(apply(ScalarOp::from_bits, DType::i32, DType::f32, &bits, 1).f, -4);
  const Number half{-2.5, 0};
  EXPECT_EQ(apply(ScalarOp::round_cast, DType::f32, DType::i8, &half, 1).i, -2);
  const Number large{1e9, 0};
  EXPECT_EQ(apply(ScalarOp::round_cast, DType::f32, DType::u8, &large, 1).i, 255);
}

TEST(KernelOps, AreNoOpsOfGraphs) {
  EXPECT_TRUE(is_kernel_op(ScalarOp::fma));
  EXPECT_FALSE(is_kernel_op(ScalarOp::exp));
  EXPECT_EQ(find_scalar_op("rcp_approx"), ScalarOp::rcp_approx);
  for (const ScalarOpInfo& row : all_scalar_ops()) EXPECT_FALSE(is_kernel_op(*find_scalar_op(row.name))) << row.name;
  EXPECT_TRUE(accepts(ScalarOp::fma, DType::f32));
  EXPECT_FALSE(accepts(ScalarOp::fma, DType::f64));
  EXPECT_EQ(result_type(ScalarOp::to_bits, DType::f32, DType::f32), DType::i32);
  EXPECT_EQ(result_type(ScalarOp::from_bits, DType::i32, DType::i32), DType::f32);
}

}  // namespace
}  // namespace fusec::ir

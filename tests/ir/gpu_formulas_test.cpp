// SPDX-License-Identifier: Apache-2.0
// The formulas that GPUs compute functions by, and the kernel ops that they are made of: every op rounds to the dtype,
// and what GPUs only approximate is exact here.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <random>

#include "ir/eval/combine.h"
#include "ir/ops/cast.h"
#include "ir/ops/op.h"
#include "ir/ops/reference.h"
#include "tests/sanitized.h"

namespace fusec::ir {
namespace {

constexpr double kHuge = std::numeric_limits<double>::infinity();
constexpr double kSpecialOperands[] = {0.0, -0.0, 1.0,  -1.0, kHuge,  -kHuge, std::numeric_limits<double>::quiet_NaN(),
                                       0.5, -0.5, 2.0,  -2.0, 3.0,    -3.0,   0.55,
                                       0.9, 10.8, 15.0, 88.7, -103.9, 3e38,   1e-45};

struct Typed {
  Number value;
  DType type;
};

// Rounds every op as compiled code does. Functions inside are computed by their own formulas.
using Operands = std::array<Number, 2>;
Number eval_formula(ScalarOp op, DType type, const Operands& operands);

Typed eval_step(const DefNode& node, DType type, const Operands& operands, const std::vector<Typed>& steps) {
  const DType bits = type == DType::f64 ? DType::i64 : DType::i32;
  const DType own = node.is_bits ? bits : type;
  if (node.kind == DefNode::Kind::number)
    return {make_number({own, node.number, static_cast<int64_t>(node.number)}), own};
  if (node.kind == DefNode::Kind::operand) return {operands[static_cast<std::size_t>(node.operand)], type};
  if (node.kind == DefNode::Kind::step) return steps[static_cast<std::size_t>(node.operand)];
  Number args[3];
  DType last = type;
  for (std::size_t i = 0; i < node.args.size(); ++i) {
    const Typed arg = eval_step(node.args[i], type, operands, steps);
    args[i] = arg.value;
    last = arg.type;
  }
  const DType result = result_type(node.op, last, last);
  if (gpu_formula(node.op, last) != nullptr) return {eval_formula(node.op, last, {args[0]}), result};
  return {apply(node.op, last, result, args, node.args.size()), result};
}

Number eval_formula(ScalarOp op, DType type, const Operands& operands) {
  std::vector<Typed> steps;
  for (const DefNode& step : *gpu_formula(op, type)) steps.push_back(eval_step(step, type, operands, steps));
  return steps.back().value;
}

double eval_formula(ScalarOp op, DType type, double a, double b = 0) {
  return eval_formula(op, type, Operands{Number{a, 0}, Number{b, 0}}).f;
}

// In units of the last place of `want`, rounded to the type.
double error_in_ulp(double got, double want, DType type) {
  const bool is_f64 = type == DType::f64;
  const double rounded = is_f64 ? want : static_cast<double>(static_cast<float>(want));
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : kHuge;
  if (got == rounded) return 0;
  if (std::isinf(got) || std::isinf(rounded)) return kHuge;
  const int lowest = is_f64 ? -1022 : -126, exponent = want == 0 ? lowest : std::max(lowest, std::ilogb(want));
  const double unit = std::ldexp(1.0, std::max(-1074, exponent - (is_f64 ? 52 : 23)));
  return std::fabs(got - want) / unit;
}

// The bounds of docs/numerics.md.
double bound_of(ScalarOp op, DType type) { return type == DType::f64 ? 2 * info(op).ulp : info(op).ulp + 0.5; }

// Of one operand: pow has tests of its own.
std::vector<ScalarOp> functions_with_formula(DType type) {
  std::vector<ScalarOp> out;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(ScalarOp::round_cast); ++i) {
    const auto op = static_cast<ScalarOp>(i);
    const bool is_rounded = op == ScalarOp::gelu_as_f16 || op == ScalarOp::gelu_as_bf16 ||
                            op == ScalarOp::sigmoid_as_16_bits;  // have a test of their own
    if (gpu_formula(op, type) != nullptr && info(op).arity == 1 && !is_rounded) out.push_back(op);
  }
  return out;
}

// Functions of one float, as the table has them.
std::vector<ScalarOp> functions() {
  return {
#define SCALAR_OP(...)
#define SCALAR_DEF(...)
#define SCALAR_FN(name, ...) ScalarOp::name,
#include "ir/ops/scalar_ops.def"
      ScalarOp::erfc,
  };
}

TEST(GpuFormulas, AreThereForAllFunctionsButThoseThatBranch) {
  for (const DType type : {DType::f32, DType::f64}) {
    for (const ScalarOp op : functions()) {
      const bool branches = op == ScalarOp::sin || op == ScalarOp::cos || op == ScalarOp::tan;
      EXPECT_EQ(gpu_formula(op, type) == nullptr, branches) << info(op).name << " " << to_string(type);
    }
    EXPECT_NE(gpu_formula(ScalarOp::pow, type), nullptr);
  }
}

struct Worst {
  double error = 0, a = 0, b = 0, got = 0;
  void see(double e, double x, double y, double result) {
    if (!(e <= error)) *this = {e, x, y, result};
  }
};

std::ostream& operator<<(std::ostream& out, const Worst& worst) {
  return out << " of " << worst.a << " " << worst.b << " is " << worst.got;
}

TEST(GpuFormulas, KeepTheBoundsOfTheirRows) {
  for (const ScalarOp op : functions_with_formula(DType::f32)) {
    Worst worst;
    for (uint64_t bits = 0; bits < uint64_t{1} << 32;
         bits += testing_support::many_or(60013, 600011)) {  // of every exponent and sign
      const double a = std::bit_cast<float>(static_cast<uint32_t>(bits));
      const double got = eval_formula(op, DType::f32, a);
      worst.see(error_in_ulp(got, eval_scalar(op, a), DType::f32), a, 0, got);
    }
    EXPECT_LE(worst.error, bound_of(op, DType::f32)) << info(op).name << worst;
  }
}

TEST(GpuFormulas, KeepTheBoundsInDouble) {
  for (const ScalarOp op : functions_with_formula(DType::f64)) {
    std::mt19937_64 random(9);
    Worst worst;
    for (int i = 0; i < testing_support::many_or(30000, 3000); ++i) {
      const uint64_t bits = random();
      const double part = static_cast<double>(static_cast<int64_t>(random())) * 0x1p-63;
      const double a = i % 3 == 0 ? std::bit_cast<double>(bits) : part * (i % 3 == 1 ? 1.5 : std::ldexp(1, bits % 12));
      const double got = eval_formula(op, DType::f64, a);
      worst.see(error_in_ulp(got, eval_scalar(op, a), DType::f64), a, 0, got);
    }
    EXPECT_LE(worst.error, bound_of(op, DType::f64)) << info(op).name << worst;
  }
}

// Bases around 1 and of all sizes, exponents that give results of all sizes, and every pair of special values.
TEST(GpuFormulas, Powers) {
  std::mt19937_64 random(11);
  const auto fraction = [&] { return static_cast<double>(static_cast<int64_t>(random())) * 0x1p-63; };
  for (const DType type : {DType::f32, DType::f64}) {
    const double largest = type == DType::f64 ? 1100 : 160;
    const auto held = [&](double v) { return type == DType::f64 ? v : static_cast<double>(static_cast<float>(v)); };
    Worst worst;
    for (int i = 0; i < testing_support::many_or(60000, 6000); ++i) {
      const double near = 1 + fraction() * 0.25, scale = std::ldexp(1, static_cast<int>(random() % 240) - 120);
      const double a = held((i % 5 == 0 ? -1 : 1) * (i % 2 == 0 ? near : (1 + std::fabs(fraction())) * scale));
      double b = fraction() * (i % 3 == 0 ? 4 : largest / (std::fabs(std::log2(std::fabs(a))) + 1e-9));
      b = held(i % 5 == 0 ? std::trunc(b) : b);
      const double got = eval_formula(ScalarOp::pow, type, a, b);
      worst.see(error_in_ulp(got, std::pow(a, b), type), a, b, got);
    }
    EXPECT_LE(worst.error, bound_of(ScalarOp::pow, type)) << worst;
    for (const double a : kSpecialOperands) {
      for (const double b : kSpecialOperands) {
        const double x = held(a), y = held(b), got = eval_formula(ScalarOp::pow, type, x, y), want = std::pow(x, y);
        EXPECT_LE(error_in_ulp(got, want, type), bound_of(ScalarOp::pow, type)) << x << " " << y << ": " << got;
        EXPECT_TRUE(std::isnan(want) || std::signbit(got) == std::signbit(want)) << x << " " << y << ": " << got;
      }
    }
  }
}

TEST(GpuFormulas, SpecialValues) {
  for (const DType type : {DType::f32, DType::f64}) {
    for (const ScalarOp op : functions_with_formula(type)) {
      for (const double a : kSpecialOperands) {
        const double operand = type == DType::f32 ? static_cast<double>(static_cast<float>(a)) : a;
        const double got = eval_formula(op, type, operand), want = eval_scalar(op, operand);
        EXPECT_LE(error_in_ulp(got, want, type), bound_of(op, type)) << info(op).name << " of " << a << ": " << got;
        EXPECT_TRUE(std::isnan(want) || std::signbit(got) == std::signbit(want)) << info(op).name << " of " << a;
      }
    }
  }
}

// Rounded to the 16-bit type, of all numbers of that type, and of floats of every exponent and sign. 1.01 is the bound
// of docs/numerics.md; a rounding alone takes half a unit.
TEST(GpuFormulas, OfHalfPrecision) {
  struct Row {
    ScalarOp op;
    DType type;
    int digits, lowest;  // of the last place: of a number from 1 on, and of the smallest normal one
  };
  for (const Row& row : {Row{ScalarOp::gelu_as_f16, DType::f16, 10, -14},
                         {ScalarOp::gelu_as_bf16, DType::bf16, 7, -126},
                         {ScalarOp::sigmoid_as_16_bits, DType::f16, 10, -14},
                         {ScalarOp::sigmoid_as_16_bits, DType::bf16, 7, -126}}) {
    Worst worst;
    const auto see = [&](double a) {
      uint16_t bits = 0;
      store_double(row.type, reinterpret_cast<char*>(&bits), eval_formula(row.op, DType::f32, a));
      const double got = load_double(row.type, reinterpret_cast<const char*>(&bits)), want = eval_scalar(row.op, a);
      store_double(row.type, reinterpret_cast<char*>(&bits), want);
      const double rounded = load_double(row.type, reinterpret_cast<const char*>(&bits));
      EXPECT_TRUE(std::isnan(want) || std::signbit(got) == std::signbit(want)) << a << ": " << got;
      const int exponent = want == 0 ? row.lowest : std::max(row.lowest, std::ilogb(want));
      const double error = std::fabs(got - want) / std::ldexp(1, exponent - row.digits);
      const bool is_equal = std::isnan(got) ? std::isnan(want) : got == rounded;
      worst.see(is_equal ? 0 : std::isfinite(got) && std::isfinite(rounded) ? error : kHuge, a, 0, got);
    };
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const auto half = static_cast<uint16_t>(bits);
      see(load_double(row.type, reinterpret_cast<const char*>(&half)));
    }
    for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += testing_support::many_or(6007, 600011))
      see(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    EXPECT_LE(worst.error, 0.75) << info(row.op).name << worst;
    EXPECT_GT(worst.error, 0.5) << info(row.op).name << worst;
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
  const Formula words = parse_formula("where(lt(a, infinity), -infinity, nan)");
  EXPECT_EQ(words[0].args[0].args[1].number, kHuge);
  EXPECT_EQ(words[0].args[1].number, -kHuge);
  EXPECT_TRUE(std::isnan(words[0].args[2].number));
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
  for (int i = 0; i < testing_support::many_or(200000, 20000); ++i) {
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
  const Number wide{0, -0x3ff0000000000000};
  EXPECT_EQ(apply(ScalarOp::from_bits, DType::i64, DType::f64, &wide, 1).f, -4);
  EXPECT_EQ(apply(ScalarOp::to_bits, DType::f64, DType::i64, &one, 1).i, 0x3ff0000000000000);
  const Number product[] = {{1 + 0x1p-30, 0}, {1 - 0x1p-30, 0}, {-1, 0}};
  EXPECT_EQ(apply(ScalarOp::fma, DType::f64, DType::f64, product, 3).f, -0x1p-60);
  const Number half{-2.5, 0};
  EXPECT_EQ(apply(ScalarOp::round_cast, DType::f32, DType::i8, &half, 1).i, -2);
  const Number large{1e9, 0};
  EXPECT_EQ(apply(ScalarOp::round_cast, DType::f32, DType::u8, &large, 1).i, 255);
}

TEST(KernelOps, AreNoOpsOfGraphs) {
  EXPECT_TRUE(is_kernel_op(ScalarOp::fma_down));
  EXPECT_FALSE(is_kernel_op(ScalarOp::exp));
  EXPECT_EQ(find_scalar_op("rcp_approx"), ScalarOp::rcp_approx);
  for (const ScalarOpInfo& row : all_scalar_ops()) EXPECT_FALSE(is_kernel_op(*find_scalar_op(row.name))) << row.name;
  EXPECT_TRUE(accepts(ScalarOp::fma_down, DType::f32));
  EXPECT_FALSE(accepts(ScalarOp::fma_down, DType::f64));
  EXPECT_EQ(result_type(ScalarOp::to_bits, DType::f32, DType::f32), DType::i32);
  EXPECT_EQ(result_type(ScalarOp::from_bits, DType::i32, DType::i32), DType::f32);
  EXPECT_EQ(result_type(ScalarOp::to_bits, DType::f64, DType::f64), DType::i64);
  EXPECT_EQ(result_type(ScalarOp::from_bits, DType::i64, DType::i64), DType::f64);
}

}  // namespace
}  // namespace fusec::ir

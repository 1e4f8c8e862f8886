// SPDX-License-Identifier: Apache-2.0
// Builds the host's transcendental functions in LLVM IR. The f32 functions are polynomials in vector code without
// tables, and mostly without branches, so that every lane of every width gives the same bits. Coefficients are minimax
// fits (reweighted least squares over Chebyshev points, rounded to f32 one at a time from the lowest). The error stated
// with each is that of the polynomial alone, relative to the function. On targets without fused multiply-add, split
// constants keep the products exact. f64 functions call libm.

#include <llvm/IR/IntrinsicsX86.h>

#include <bit>
#include <limits>
#include <vector>

#include "codegen/llvm/values.h"
#include "ir/support/check.h"

namespace fusec::codegen::math {
namespace {

using llvm::Value;

bool is_f64(const Value* x) { return x->getType()->getScalarType()->isDoubleTy(); }

// a*b + c, fused where the target has FMA. Only code in this file may contract.
Value* fma(Ir& ir, Value* a, Value* b, Value* c) {
  if (ir.target.has("fma")) return call_intrinsic(ir, llvm::Intrinsic::fma, {a, b, c});
  return ir.b.CreateFAdd(ir.b.CreateFMul(a, b), c);
}
Value* fma(Ir& ir, Value* a, double b, Value* c) { return fma(ir, a, number(a, b), c); }

// c[0] + c[1]*x + c[2]*x^2 + ...
Value* polynomial(Ir& ir, Value* x, std::initializer_list<double> coefficients) {
  Value* out = nullptr;
  for (auto c = coefficients.end(); c-- != coefficients.begin();) {
    out = out ? fma(ir, out, x, number(x, *c)) : number(x, *c);
  }
  return out;
}

Value* as_int(Ir& ir, Value* f) { return ir.b.CreateBitCast(f, retyped(f, ir.b.getInt32Ty())); }
Value* as_float(Ir& ir, Value* i) { return ir.b.CreateBitCast(i, retyped(i, ir.b.getFloatTy())); }
Value* absolute(Ir& ir, Value* x) { return call_intrinsic(ir, llvm::Intrinsic::fabs, {x}); }
Value* copysign(Ir& ir, Value* x, Value* sign) { return call_intrinsic(ir, llvm::Intrinsic::copysign, {x, sign}); }

// min(x, bound), max(x, bound); NaN stays NaN.
Value* at_most(Ir& ir, Value* x, double bound) {
  Value* limit = number(x, bound);
  return ir.b.CreateSelect(ir.b.CreateFCmpOLT(limit, x), limit, x);
}
Value* at_least(Ir& ir, Value* x, double bound) {
  Value* limit = number(x, bound);
  return ir.b.CreateSelect(ir.b.CreateFCmpOGT(limit, x), limit, x);
}

// Applies f to pieces of at most `lanes` lanes; narrower vectors are padded to 4.
Value* in_pieces(Ir& ir, Value* a, Value* b, int lanes, const std::function<Value*(Value*, Value*)>& f) {
  const int width = width_of(a);
  const auto range = [](int from, int to, int last) {
    std::vector<int> out;
    for (int k = from; k < to; ++k) out.push_back(std::min(k, last));
    return out;
  };
  if (width < 4) {
    const auto fill = [&](Value* v) {
      return width == 1 ? splat(ir, v, 4) : ir.b.CreateShuffleVector(v, range(0, 4, width - 1));
    };
    Value* out = f(fill(a), fill(b));
    return width == 1 ? ir.b.CreateExtractElement(out, uint64_t{0})
                      : ir.b.CreateShuffleVector(out, range(0, width, width));
  }
  if (width <= lanes) return f(a, b);
  const int half = width / 2;
  const auto part = [&](Value* v, int from, int to) { return ir.b.CreateShuffleVector(v, range(from, to, width)); };
  Value* low = in_pieces(ir, part(a, 0, half), part(b, 0, half), lanes, f);
  Value* high = in_pieces(ir, part(a, half, width), part(b, half, width), lanes, f);
  return ir.b.CreateShuffleVector(low, high, range(0, width, width));
}

// p * 2^n for an integral n, correctly rounded also for denormal results, by AVX-512's vscalefps.
Value* scalef(Ir& ir, Value* p, Value* n) {
  return in_pieces(ir, p, n, 16, [&](Value* x, Value* y) -> Value* {
    auto& b = ir.b;
    llvm::Value* none = llvm::PoisonValue::get(x->getType());
    switch (width_of(x)) {
      case 16:
        return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                                 {x, y, none, b.getInt16(0xffff), b.getInt32(4)});
      case 8:
        return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_256, {}, {x, y, none, b.getInt8(0xff)});
      default:
        return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_128, {}, {x, y, none, b.getInt8(0xff)});
    }
  });
}

bool has_scalef(const Ir& ir, const Value* x) {
  const int width = width_of(x);
  return ir.target.has("avx512vl") && (width & (width - 1)) == 0;
}

// The integer nearest to a number, as float and as int. Adding 1.5*2^23 leaves the integer in the low bits.
struct Nearest {
  Value* as_float;
  Value* as_int;
};
Nearest nearest(Ir& ir, Value* x, double scale) {
  constexpr double kMagic = 0x1.8p23;
  Value* shifted = fma(ir, x, scale, number(x, kMagic));
  Value* bits = as_int(ir, shifted);
  return {ir.b.CreateFSub(shifted, number(x, kMagic)), ir.b.CreateSub(bits, integer(bits, 0x4b400000))};
}

// 2^n for -126 <= n <= 127.
Value* power_of_two(Ir& ir, Value* n) {
  return as_float(ir, ir.b.CreateShl(ir.b.CreateAdd(n, integer(n, 127)), integer(n, 23)));
}

// The integer n nearest to x*scale, and 2^(n + lift) for -126 <= n + lift <= 127. With the exponent's bias in the
// number that is added, the low bits are the exponent of the power: one shift makes it.
struct Power {
  Value* exponent;  // n, as float
  Value* power;
};
Power nearest_power(Ir& ir, Value* x, double scale, int lift) {
  const double magic = 0x1.8p23 + 127 + lift;
  Value* shifted = fma(ir, x, scale, number(x, magic));
  Value* bits = as_int(ir, shifted);
  return {ir.b.CreateFSub(shifted, number(x, magic)), as_float(ir, ir.b.CreateShl(bits, integer(bits, 23)))};
}

constexpr double kLog2E = 0x1.715476p+0;
// ln 2 in two parts. The first has 15 bits, so that its product with an exponent is exact.
constexpr double kLn2Hi = 0x1.62e4p-1, kLn2Lo = 0x1.7f7d1cp-20;

// x = n*ln2 + r with |r| <= ln2/2.
struct Reduced {
  Power n;
  Value* r;
};
Reduced reduce_ln2(Ir& ir, Value* x, int lift) {
  const Power n = nearest_power(ir, x, kLog2E, lift);
  Value* r = fma(ir, n.exponent, -kLn2Hi, x);
  return {n, fma(ir, n.exponent, -kLn2Lo, r)};
}

// exp(r) = 1 + r + r^2*P(r), degree 6: 1.4e-8 relative to expm1(r).
Value* exp_tail(Ir& ir, Value* r) {
  return polynomial(ir, r, {0x1.fffffep-2, 0x1.5554b4p-3, 0x1.5556f2p-5, 0x1.12253ap-7, 0x1.6b9c3ep-10});
}
Value* expm1_core(Ir& ir, Value* r) { return fma(ir, ir.b.CreateFMul(r, r), exp_tail(ir, r), r); }
Value* exp_core(Ir& ir, Value* r) {
  Value* one = number(r, 1);
  return fma(ir, fma(ir, exp_tail(ir, r), r, one), r, one);
}

// exp for results that are normal numbers.
Value* exp_normal(Ir& ir, Value* x) {
  const Reduced d = reduce_ln2(ir, x, 0);
  Value* p = exp_core(ir, d.r);
  return has_scalef(ir, x) ? scalef(ir, p, d.n.exponent) : ir.b.CreateFMul(p, d.n.power);
}

// p * 2^n with a single rounding, also for denormal results, where -190 <= n <= 63 and n was made with the lift kLift.
constexpr int kLift = 64;
Value* lowered(Ir& ir, Value* p, const Power& n) {
  if (has_scalef(ir, p)) return scalef(ir, p, n.exponent);
  return ir.b.CreateFMul(ir.b.CreateFMul(p, n.power), number(p, 0x1p-64));
}

// x = m * 2^e with m in [sqrt(1/2), sqrt(2)), for normal positive x.
struct Decomposed {
  Value* mantissa;
  Value* exponent;  // int
};
Decomposed decompose(Ir& ir, Value* x) {
  Value* bits = as_int(ir, x);
  Value* e = ir.b.CreateAShr(ir.b.CreateSub(bits, integer(bits, 0x3f3504f3)), integer(bits, 23));
  return {as_float(ir, ir.b.CreateSub(bits, ir.b.CreateShl(e, integer(e, 23)))), e};
}

// e*ln2 + log(1 + f) = e*ln2 + f - f^2/2 + f^3*P(f), P of degree 7 for sqrt(1/2) <= 1 + f < sqrt(2): 5.8e-9.
Value* log_core(Ir& ir, Value* f, Value* e) {
  auto& b = ir.b;
  Value* exponent = b.CreateSIToFP(e, f->getType());
  Value* square = b.CreateFMul(f, f);
  Value* p = polynomial(ir, f,
                        {0x1.555554p-2, -0x1.000226p-2, 0x1.99a01ep-3, -0x1.54728cp-3, 0x1.22d8f8p-3, -0x1.0d81f2p-3,
                         0x1.05602ep-3, -0x1.38cf2p-4});
  Value* tail = b.CreateFMul(b.CreateFMul(f, square), p);
  tail = fma(ir, exponent, kLn2Lo, tail);
  tail = fma(ir, square, -0.5, tail);
  return fma(ir, exponent, kLn2Hi, b.CreateFAdd(f, tail));
}

// The values of log at the ends of its domain; `y` is the argument of the logarithm.
Value* log_special(Ir& ir, Value* y, Value* result) {
  auto& b = ir.b;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  result = b.CreateSelect(b.CreateFCmpOEQ(y, number(y, kInf)), y, result);
  result = b.CreateSelect(b.CreateFCmpOEQ(y, number(y, 0)), number(y, -kInf), result);
  return b.CreateSelect(b.CreateFCmpULT(y, number(y, 0)), number(y, std::numeric_limits<double>::quiet_NaN()), result);
}

// Above this magnitude the reduction by parts of pi/2 loses too many bits.
constexpr double kHuge = 0x1p15;

// sin(x + quarter*pi/2): x = n*pi/2 + r, then sin or cos of r by the parity of n + quarter, its sign by the next bit.
Value* sin_or_cos(Ir& ir, Value* x, int quarter) {
  auto& b = ir.b;
  const Nearest n = nearest(ir, x, 0x1.45f306p-1);
  Value* r = x;
  // The parts of pi/2 are truncated, not rounded. All are positive, so that r of -0 is -0.
  if (ir.target.has("fma")) {
    for (const double part : {0x1.921fb4p+0, 0x1.4442d0p-24, 0x1.846988p-48}) r = fma(ir, n.as_float, -part, r);
  } else {
    // 8 bits per part and 16 bits of n make the products exact.
    for (const double part : {0x1.92p+0, 0x1.fap-12, 0x1.54p-20, 0x1.1p-30, 0x1.68c234p-39})
      r = fma(ir, n.as_float, -part, r);
  }
  Value* square = b.CreateFMul(r, r);
  // sin r = r*(1 + r^2*P(r^2)): 1.7e-10; cos r = 1 - r^2/2 + r^4*P(r^2): 1.2e-10.
  Value* s = polynomial(ir, square, {-0x1.555556p-3, 0x1.111174p-7, -0x1.a05968p-13, 0x1.7c367ap-19});
  s = b.CreateFMul(r, fma(ir, square, s, number(x, 1)));  // keeps -0
  Value* c = polynomial(ir, square, {0x1.55554ap-5, -0x1.6c0c28p-10, 0x1.99e816p-16});
  c = fma(ir, b.CreateFMul(square, square), c, fma(ir, square, -0.5, number(x, 1)));
  Value* turn = b.CreateAdd(n.as_int, integer(n.as_int, quarter));
  Value* odd = b.CreateICmpNE(b.CreateAnd(turn, integer(turn, 1)), integer(turn, 0));
  Value* sign = b.CreateShl(b.CreateAnd(turn, integer(turn, 2)), integer(turn, 30));
  return as_float(ir, b.CreateXor(as_int(ir, b.CreateSelect(odd, c, s)), sign));
}

// The polynomial where |x| is small enough, libm for the other lanes.
Value* trigonometric(Ir& ir, Value* x, int quarter, const char* name) {
  auto& b = ir.b;
  Value* near = sin_or_cos(ir, x, quarter);
  Value* huge = b.CreateFCmpOGT(absolute(ir, x), number(x, kHuge));
  Value* any = width_of(x) == 1 ? huge : b.CreateOrReduce(huge);
  return branch(
      ir, any, [&] { return b.CreateSelect(huge, libm(ir, name, {x}), near); }, [&] { return near; });
}

// Whether all lanes are numbers of at most that magnitude. The signs of differences of the bits say it, of which the
// lanes of one register are looked at together.
Value* all_within(Ir& ir, Value* x, float bound) {
  auto& b = ir.b;
  Value* bits = as_int(ir, absolute(ir, x));
  Value* past = b.CreateSub(integer(bits, std::bit_cast<int32_t>(bound)), bits);
  while (width_of(past) > 8 && width_of(past) % 2 == 0) {
    const int half = width_of(past) / 2;
    past = b.CreateOr(lanes_from(ir, past, 0, half), lanes_from(ir, past, half, half));
  }
  Value* outside = b.CreateICmpSLT(past, integer(past, 0));
  return b.CreateNot(width_of(outside) == 1 ? outside : b.CreateOrReduce(outside));
}

// p * 2^n with a single rounding, also for denormal results and where 2^n overflows, for an n that was made without a
// lift: the exponent is split in halves. Only the second product rounds.
Value* scaled(Ir& ir, Value* p, const Power& n) {
  auto& b = ir.b;
  if (has_scalef(ir, p)) return scalef(ir, p, n.exponent);
  Value* bits = as_int(ir, n.power);
  Value* whole = b.CreateSub(b.CreateAShr(bits, integer(bits, 23)), integer(bits, 127));
  Value* half = b.CreateAShr(whole, integer(whole, 1));
  return b.CreateFMul(b.CreateFMul(p, power_of_two(ir, half)), power_of_two(ir, b.CreateSub(whole, half)));
}

// Outside these bounds the result is infinity or 0 anyway. An underflow to 0 would cost about 150 cycles per vector,
// and masked softmaxes underflow in most lanes.
Value* exp_bounded(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value *some = b.CreateFCmpUGE(x, number(x, -104)), *nothing = number(x, 0);
  const Reduced d = reduce_ln2(ir, b.CreateSelect(some, at_most(ir, x, 89), nothing), 0);
  return b.CreateSelect(some, scaled(ir, exp_core(ir, d.r), d.n), nothing);
}

// Without vscalefps, vectors whose results are all normal numbers take half as long in code of their own.
Value* exp(Ir& ir, Value* x) {
  if (is_f64(x)) return libm(ir, "exp", {x});
  if (has_scalef(ir, x)) return exp_bounded(ir, x);
  return usually(
      ir, all_within(ir, x, 87), [&] { return exp_normal(ir, x); }, [&] { return exp_bounded(ir, x); });
}

// s = 2^(n-1) does not overflow: exp(x) - 1 = 2*(s*expm1(r) + (s - 1/2)).
Value* expm1(Ir& ir, Value* x) {
  if (is_f64(x)) return libm(ir, "expm1", {x});
  auto& b = ir.b;
  const Reduced d = reduce_ln2(ir, at_least(ir, at_most(ir, x, 89), -30), -1);
  Value* s = d.n.power;
  Value* out = fma(ir, s, expm1_core(ir, d.r), b.CreateFSub(s, number(x, 0.5)));
  out = b.CreateFAdd(out, out);
  return b.CreateSelect(b.CreateFCmpOLT(absolute(ir, x), number(x, 0x1p-25)), x, out);
}

Value* log(Ir& ir, Value* x) {
  if (is_f64(x)) return libm(ir, "log", {x});
  auto& b = ir.b;
  Value* denormal = b.CreateFCmpOLT(x, number(x, 0x1p-126));
  const Decomposed d = decompose(ir, b.CreateSelect(denormal, b.CreateFMul(x, number(x, 0x1p23)), x));
  Value* e = b.CreateSelect(denormal, b.CreateSub(d.exponent, integer(d.exponent, 23)), d.exponent);
  return log_special(ir, x, log_core(ir, b.CreateFSub(d.mantissa, number(x, 1)), e));
}

// u = 1 + x rounded; the rounding error is added to the reduced argument.
Value* log1p(Ir& ir, Value* x) {
  if (is_f64(x)) return libm(ir, "log1p", {x});
  auto& b = ir.b;
  Value* one = number(x, 1);
  Value* u = b.CreateFAdd(one, x);
  Value* from_x = b.CreateFSub(u, x);
  Value* lost = b.CreateFAdd(b.CreateFSub(x, b.CreateFSub(u, from_x)), b.CreateFSub(one, from_x));
  const Decomposed d = decompose(ir, u);
  Value* negated = b.CreateNeg(d.exponent);
  Value* scale = power_of_two(ir, call_intrinsic(ir, llvm::Intrinsic::smax, {negated, integer(negated, -126)}));
  Value* out = log_core(ir, fma(ir, lost, scale, b.CreateFSub(d.mantissa, one)), d.exponent);
  return b.CreateSelect(b.CreateFCmpOEQ(x, number(x, 0)), x, log_special(ir, u, out));
}

// -m/(2 + m) with m = expm1(-2|x|); the result is 1 from 9.1 on.
Value* tanh(Ir& ir, Value* x) {
  if (is_f64(x)) return libm(ir, "tanh", {x});
  auto& b = ir.b;
  Value* held = at_most(ir, absolute(ir, x), 9.5);
  const Reduced d = reduce_ln2(ir, b.CreateFMul(held, number(x, -2)), 0);
  Value* m = fma(ir, d.n.power, expm1_core(ir, d.r), b.CreateFSub(d.n.power, number(x, 1)));
  return copysign(ir, b.CreateFDiv(m, b.CreateFAdd(m, number(x, 2))), x);
}

// x| < 0.9: x + x*P(x^2), 1.4e-8; else 1 - exp(Q(|x|)) with Q = log(erfc), 1.7e-9; the result is 1 from 4 on.
Value* erf(Ir& ir, Value* x) {
  if (is_f64(x)) return libm(ir, "erf", {x});
  auto& b = ir.b;
  Value* square = b.CreateFMul(x, x);
  Value* p = polynomial(ir, square,
                        {0x1.06eba6p-3, -0x1.8126eep-2, 0x1.ce1bfp-4, -0x1.b6a25p-6, 0x1.47c73p-8, -0x1.3c61c8p-11});
  Value* small = fma(ir, x, p, x);
  Value* magnitude = absolute(ir, x);
  Value* q = polynomial(
      ir, at_most(ir, magnitude, 4),
      {-0x1.5d0c4ep-13, -0x1.20b752p+0, -0x1.4621bcp-1, -0x1.aa730ap-4, 0x1.6d9ca4p-6, -0x1.91cc8ep-9, 0x1.9fb252p-13});
  Value* large = b.CreateFSub(number(x, 1), exp_normal(ir, q));
  return b.CreateSelect(b.CreateFCmpOLT(magnitude, number(x, 0.9)), small, copysign(ir, large, x));
}

// Uses exp(-|x|), which does not overflow.
Value* sigmoid(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value* magnitude = absolute(ir, x);
  Value* one = number(x, 1);
  Value* e = nullptr;
  if (is_f64(x) || has_scalef(ir, x)) {
    e = exp(ir, b.CreateFNeg(magnitude));
  } else {
    const Reduced d = reduce_ln2(ir, b.CreateFNeg(at_most(ir, magnitude, 104)), kLift);
    e = lowered(ir, exp_core(ir, d.r), d.n);
  }
  return b.CreateFDiv(b.CreateSelect(b.CreateFCmpOLT(x, number(x, 0)), e, one), b.CreateFAdd(e, one));
}

// A number as the sum of two. On targets without fused multiply-add, the first part has few enough bits to be
// multiplied exactly.
struct Parts {
  Value* high;
  Value* low;
};
Value* cut(Ir& ir, Value* x, int64_t mask) {
  Value* bits = as_int(ir, x);
  return as_float(ir, ir.b.CreateAnd(bits, integer(bits, mask)));
}

Parts compute_square(Ir& ir, Value* x) {
  auto& b = ir.b;
  if (ir.target.has("fma")) {
    Value* square = b.CreateFMul(x, x);
    return {square, fma(ir, x, x, b.CreateFNeg(square))};
  }
  Value* high = cut(ir, x, -0x1000);
  return {b.CreateFMul(high, high), b.CreateFMul(b.CreateFSub(x, high), b.CreateFAdd(x, high))};
}

// x * Phi(x) = max(x, 0) - |x| * Phi(-|x|); the subtraction does not cancel. With t = |x| and q = t/(t + 2.5) the
// second term is exp(-t^2/2) * q*P(q), with P accurate to 6.0e-9 and t^2 in two parts. Writing the exponential as 1 +
// expm1 saves a rounding. The factor 2^n is applied last, so that denormal results round once. From t = 15 on the
// second term is 0. 3.1 ulp, 3.6 ulp without fused multiply-add.
Value* gelu(Ir& ir, Value* x) {
  auto& b = ir.b;
  if (is_f64(x)) {
    Value* rest = libm(ir, "erfc", {b.CreateFMul(x, number(x, -0.70710678118654752440))});
    return b.CreateFMul(b.CreateFMul(x, number(x, 0.5)), rest);
  }
  Value* t = at_most(ir, absolute(ir, x), 15);
  const Parts square = compute_square(ir, t);
  const Reduced d = reduce_ln2(ir, b.CreateFMul(square.high, number(x, -0.5)), kLift);
  Value* e = expm1_core(ir, fma(ir, square.low, -0.5, d.r));
  Value* q = b.CreateFDiv(t, b.CreateFAdd(t, number(x, 2.5)));
  Value* p = polynomial(ir, q,
                        {0x1.4p+0, -0x1.3e4ed4p+0, 0x1.5b2e68p-3, 0x1.2c3bp-2, 0x1.775604p-5, -0x1.ae0cbcp-4,
                         0x1.3993acp-6, -0x1.e47558p-4, 0x1.6183ccp-4, 0x1.b07398p-6, -0x1.962a42p-6});
  p = b.CreateFMul(q, p);
  Value* tail = lowered(ir, fma(ir, p, e, p), d.n);
  Value* sign = b.CreateSelect(b.CreateFCmpOGT(x, number(x, 0)), number(x, 1), number(x, 0));
  return fma(ir, x, sign, b.CreateFNeg(tail));  // -infinity * 0 is NaN
}

// t * (t^2 + 1/0.044715) for 0 <= t <= 11. The first part of the constant has few enough bits to make the differences
// exact.
Parts compute_cubic(Ir& ir, Value* t) {
  auto& b = ir.b;
  constexpr double kHigh = 22.36328125, kLow = 1 / 0.044715 - kHigh;
  Value* first = number(t, kHigh);
  if (ir.target.has("fma")) {
    Value* sum = fma(ir, t, t, first);
    Value* rest = b.CreateFAdd(fma(ir, t, t, b.CreateFSub(first, sum)), number(t, kLow));
    Value* product = b.CreateFMul(t, sum);
    return {product, fma(ir, t, rest, fma(ir, t, sum, b.CreateFNeg(product)))};
  }
  constexpr int64_t kEightBits = -0x10000;
  Value* high = cut(ir, t, kEightBits);
  Value* low = b.CreateFSub(t, high);
  Value* square = b.CreateFMul(high, high);
  Value* sum = b.CreateFAdd(first, square);
  Value* rest = b.CreateFAdd(b.CreateFSub(first, sum), square);
  rest = b.CreateFAdd(rest, b.CreateFAdd(b.CreateFMul(low, b.CreateFAdd(t, high)), number(t, kLow)));
  Value* short_sum = cut(ir, sum, kEightBits);
  rest = b.CreateFAdd(b.CreateFSub(sum, short_sum), rest);
  return {b.CreateFMul(high, short_sum), b.CreateFAdd(b.CreateFMul(low, short_sum), b.CreateFMul(t, rest))};
}

// x / (1 + exp(-y)) with y = 2*sqrt(2/pi) * (x + 0.044715*x^3), computed as exp(-|y|) or 1 over 1 + exp(-|y|). The
// exponent of 2, a multiple of the cubic, is kept in two parts until its integer part is subtracted. From 10.8 on
// exp(-|y|)*x is 0. 2.8 ulp.
Value* gelu_tanh(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value* one = number(x, 1);
  constexpr double kTwice = 2 * 0.79788456080286535588;
  if (is_f64(x)) {
    Value* cube = b.CreateFMul(b.CreateFMul(b.CreateFMul(number(x, 0.044715), x), x), x);
    Value* e = libm(ir, "exp", {b.CreateFMul(number(x, -kTwice), b.CreateFAdd(x, cube))});
    return b.CreateFDiv(x, b.CreateFAdd(one, e));
  }
  constexpr double kScale = -kTwice * 0.044715 * 0x1.71547652b82fep+0;
  const bool has_fma = ir.target.has("fma");
  const double high = has_fma ? static_cast<float>(kScale) : -0x1.a4p-4;  // without FMA, the first part has 8 bits
  Value* t = at_most(ir, absolute(ir, x), 11);
  const Parts cubic = compute_cubic(ir, t);
  const Power n = nearest_power(ir, has_fma ? cubic.high : b.CreateFAdd(cubic.high, cubic.low), kScale, kLift);
  Value* r = fma(ir, cubic.high, high, b.CreateFNeg(n.exponent));
  r = fma(ir, cubic.low, kScale, fma(ir, cubic.high, kScale - high, r));
  Value* p = exp_core(ir, b.CreateFMul(r, number(x, 0x1.62e43p-1)));
  p = b.CreateSelect(b.CreateFCmpOGT(t, number(x, 10.8)), number(x, 0), p);  // -infinity * 0 is NaN
  Value* above = b.CreateSelect(b.CreateFCmpOLT(x, number(x, 0)), lowered(ir, b.CreateFMul(x, p), n), x);
  return b.CreateFDiv(above, b.CreateFAdd(one, lowered(ir, p, n)));
}

// 2^y for -150 <= y <= 127, and less than 2^-150 below. The error is that of the polynomial in y less its nearest
// integer.
Value* exp2_bounded(Ir& ir, Value* y, std::initializer_list<double> coefficients) {
  const int lift = has_scalef(ir, y) ? 0 : kLift;
  Value* held = at_least(ir, y, -151);
  const Power n = nearest_power(ir, held, 1, lift);
  Value* p = polynomial(ir, ir.b.CreateFSub(held, n.exponent), coefficients);
  return lowered(ir, p, n);
}

// The formulas of gelu_as_f16 and gelu_as_bf16 in ir/ops/gpu_formulas.def: x * Phi(x), where log2(Phi(-|x|)) is a
// polynomial. The exponential adds 2.8e-6.
Value* gelu_short(Ir& ir, Value* x, std::initializer_list<double> log_of_phi, double lift) {
  auto& b = ir.b;
  Value* log = polynomial(ir, absolute(ir, x), log_of_phi);
  Value* e = exp2_bounded(ir, log, {1, 0x1.62e12cp-1, 0x1.ec0374p-3, 0x1.c9fc74p-5, 0x1.3a03c8p-7});
  Value* side = b.CreateSelect(b.CreateFCmpOGT(x, number(x, 0)), number(x, lift), number(x, 0));
  Value* phi = absolute(ir, b.CreateFSub(side, e));
  return b.CreateFMul(x, lift == 1 ? phi : b.CreateFMul(phi, number(x, 1 / lift)));
}
Value* gelu_as_f16(Ir& ir, Value* x) {
  return gelu_short(
      ir, x, {-0x1.0008dap+0, -0x1.26238ap+0, -0x1.dbaf86p-2, -0x1.88afdap-5, 0x1.78234cp-8, -0x1.46d1a2p-12}, 1);
}
Value* gelu_as_bf16(Ir& ir, Value* x) {
  return gelu_short(ir, x,
                    {0x1.effc18p+4, -0x1.243352p+0, -0x1.e67ed6p-2, -0x1.62b2e4p-5, 0x1.54044ap-8, -0x1.94832p-12,
                     0x1.0a18bp-16, -0x1.261e66p-22},
                    0x1p32);
}

// As sigmoid, with a shorter exponential: 1.0e-7.
Value* sigmoid_as_16_bits(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value* one = number(x, 1);
  Value* e = exp2_bounded(ir, b.CreateFMul(absolute(ir, x), number(x, -kLog2E)),
                          {1, 0x1.62e42ap-1, 0x1.ebf9c2p-3, 0x1.c6b6dap-5, 0x1.3ce8b2p-7, 0x1.5bd97ap-10});
  return b.CreateFDiv(b.CreateSelect(b.CreateFCmpOLT(x, number(x, 0)), e, one), b.CreateFAdd(e, one));
}

Value* sin(Ir& ir, Value* x) { return is_f64(x) ? libm(ir, "sin", {x}) : trigonometric(ir, x, 0, "sin"); }
Value* cos(Ir& ir, Value* x) { return is_f64(x) ? libm(ir, "cos", {x}) : trigonometric(ir, x, 1, "cos"); }

using Build = Value* (*)(Ir&, Value*);
constexpr Build library = nullptr;

Value* build(Ir& ir, Build own, const char* name, Value* x) { return own ? own(ir, x) : libm(ir, name, {x}); }

}  // namespace

// A run-time loop over the lanes keeps the code small; the operands are passed through the stack.
Value* libm(Ir& ir, const std::string& name, const std::vector<Value*>& args) {
  auto& b = ir.b;
  Value* first = args[0];
  llvm::Type* scalar = first->getType()->getScalarType();
  std::vector<llvm::Type*> types(args.size(), scalar);
  auto* type = llvm::FunctionType::get(scalar, types, false);
  Value* callee = ir.extern_address(scalar->isDoubleTy() ? name : name + "f");
  const int width = width_of(first);
  if (width == 1) return b.CreateCall(type, callee, args);
  std::vector<Value*> spilled;
  for (Value* arg : args) {
    spilled.push_back(stack_slot(ir, arg->getType()));
    b.CreateStore(arg, spilled.back());
  }
  runtime_loop(ir, b.getInt64(static_cast<uint64_t>(width)), [&](Value* lane) {
    std::vector<Value*> operands;
    for (Value* at : spilled) operands.push_back(b.CreateLoad(scalar, b.CreateGEP(scalar, at, lane)));
    b.CreateStore(b.CreateCall(type, callee, operands), b.CreateGEP(scalar, spilled[0], lane));
  });
  return b.CreateLoad(first->getType(), spilled[0]);
}

// a*b + c rounded once. The product of two f32 is exact in f64. Where the sum is not, rounding it twice adds a
// negligible error.
Value* fused(Ir& ir, Value* a, Value* b, Value* c) {
  if (is_f64(a) || ir.target.has("fma")) return fma(ir, a, b, c);
  const auto wide = [&](Value* v) { return ir.b.CreateFPExt(v, retyped(v, ir.b.getDoubleTy())); };
  return ir.b.CreateFPTrunc(ir.b.CreateFAdd(ir.b.CreateFMul(wide(a), wide(b)), wide(c)), a->getType());
}

Value* function(Ir& ir, ir::ScalarOp op, Value* x) {
  switch (op) {
#define SCALAR_OP(...)
#define SCALAR_DEF(...)
#define SCALAR_FN(name, reference, cuda, host, ...) \
  case ir::ScalarOp::name:                          \
    return build(ir, host, #name, x);
#include "ir/ops/scalar_ops.def"
    default:
      break;
  }
  FUSEC_CHECK(false) << ir::info(op).name << " is no function of one float";
  return nullptr;
}

Value* kernel_op(Ir& ir, ir::ScalarOp op, const OpArgs& args) {
  if (op == ir::ScalarOp::gelu_as_f16) return gelu_as_f16(ir, args.a);
  if (op == ir::ScalarOp::gelu_as_bf16) return gelu_as_bf16(ir, args.a);
  if (op == ir::ScalarOp::sigmoid_as_16_bits) return sigmoid_as_16_bits(ir, args.a);
  throw CompileError("the op '" + std::string(ir::info(op).name) + "' is for GPUs, not for a CPU");
}

}  // namespace fusec::codegen::math

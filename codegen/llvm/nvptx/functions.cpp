// SPDX-License-Identifier: Apache-2.0
// sin, cos, tan and fmod for NVPTX. The argument of the first three is reduced to x = n*pi/2 + r. Up to a bound that
// takes parts of pi/2, multiplied exactly or in a fused multiply-add (Cody and Waite 1980). Beyond it, in a branch that
// is seldom taken, it takes the bits of 2/pi around the point that matters (Payne and Hanek 1983).

#include "codegen/llvm/nvptx/functions.h"

#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include <array>
#include <cmath>
#include <limits>

#include "codegen/llvm/nvptx/writer.h"

namespace fusec::codegen::nvptx {
namespace {

using llvm::Value;
namespace intrinsic = llvm::Intrinsic;

bool is_double(const Value* v) { return v->getType()->isDoubleTy(); }
Value* fma(Ir& ir, Value* a, Value* b, Value* c) { return call_intrinsic(ir, intrinsic::fma, {a, b, c}); }
Value* fma(Ir& ir, Value* a, double b, Value* c) { return fma(ir, a, number(a, b), c); }
Value* absolute(Ir& ir, Value* x) { return call_intrinsic(ir, intrinsic::fabs, {x}); }

// c[0] + c[1]*x + c[2]*x^2 + ...
Value* polynomial(Ir& ir, Value* x, std::initializer_list<double> coefficients) {
  Value* out = nullptr;
  for (auto c = coefficients.end(); c-- != coefficients.begin();)
    out = out ? fma(ir, out, x, number(x, *c)) : number(x, *c);
  return out;
}

// x = n*pi/2 + rest with |rest| <= pi/4. Of n, the two lowest bits count.
struct Turn {
  Value *rest, *n;
};

// The parts have few enough bits that n times each but the last is exact, or a sum with it.
Turn near_turn(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value* magic = number(x, is_double(x) ? 0x1.8p52 : 0x1.8p23);  // leaves the integer in the low bits
  Value* shifted = fma(ir, x, 0x1.45f306dc9c883p-1, magic);
  Value *n = b.CreateFSub(shifted, magic), *rest = x;
  const auto parts = is_double(x) ? std::array{0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2e037073p-69}
                                  : std::array{0x1.921fb4p+0, 0x1.4442d0p-24, 0x1.846988p-48};
  for (const double part : parts) rest = fma(ir, n, -part, rest);
  return {rest, as_bits(ir, shifted)};
}

// 64 zeros and the first 1,280 bits of 2/pi behind its point.
constexpr uint64_t kTwoOverPi[] = {
    0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
    0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41,
    0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
    0xf0cfbc209af4361d,
};

llvm::GlobalVariable* two_over_pi(Ir& ir) {
  llvm::Module& module = *ir.b.GetInsertBlock()->getModule();
  if (llvm::GlobalVariable* made = module.getNamedGlobal("two_over_pi")) return made;
  auto* words = llvm::ConstantDataArray::get(ir.b.getContext(), llvm::ArrayRef<uint64_t>(kTwoOverPi));
  auto* made = new llvm::GlobalVariable(module, words->getType(), true, llvm::GlobalValue::InternalLinkage, words,
                                        "two_over_pi", nullptr, llvm::GlobalValue::NotThreadLocal, kGlobal);
  made->setAlignment(llvm::Align(8));
  return made;
}

// The high half of a product of 64-bit integers.
Value* high_product(Ir& ir, Value* a, Value* b) {
  auto& builder = ir.b;
  llvm::Type* wide = builder.getInt128Ty();
  Value* product = builder.CreateMul(builder.CreateZExt(a, wide), builder.CreateZExt(b, wide));
  return builder.CreateTrunc(builder.CreateLShr(product, 64), builder.getInt64Ty());
}

// A positive finite number as mantissa * 2^exponent, both i64.
struct Scaled {
  Value *mantissa, *exponent;
};
Scaled scaled_integer(Ir& ir, Value* x) {
  auto& b = ir.b;
  const int places = is_double(x) ? 52 : 23, bias = is_double(x) ? 1023 : 127;
  Value* bits = b.CreateZExt(as_bits(ir, x), b.getInt64Ty());
  Value* fraction = b.CreateAnd(bits, integer(bits, (int64_t{1} << places) - 1));
  return {b.CreateOr(fraction, integer(bits, int64_t{1} << places)),
          b.CreateSub(b.CreateLShr(bits, integer(bits, places)), integer(bits, bias + places))};
}

// x*2/pi modulo 4 as a binary fraction of `count` words with two bits before the point, the highest two words of it.
// The bits of 2/pi before the first that is taken contribute multiples of 4.
struct Fraction {
  Value *high, *low;
};
Fraction turns_of(Ir& ir, Value* x, int count) {
  auto& b = ir.b;
  llvm::Type* i64 = b.getInt64Ty();
  const Scaled d = scaled_integer(ir, x);
  Value* first = b.CreateAdd(d.exponent, b.getInt64(62));
  Value* at = b.CreateGEP(i64, two_over_pi(ir), b.CreateLShr(first, b.getInt64(6)));
  Value* shift = b.CreateAnd(first, b.getInt64(63));
  std::vector<Value*> words;
  for (int k = 0; k <= count; ++k) words.push_back(b.CreateLoad(i64, b.CreateConstGEP1_64(i64, at, k)));
  for (size_t k = 0; k + 1 < words.size(); ++k)
    words[k] = b.CreateIntrinsic(intrinsic::fshl, {i64}, {words[k], words[k + 1], shift});
  words.pop_back();
  Value* carry = high_product(ir, d.mantissa, words.back());
  if (count == 2) return {b.CreateAdd(b.CreateMul(d.mantissa, words[0]), carry), nullptr};
  Value* product = b.CreateMul(d.mantissa, words[1]);
  Value* low = b.CreateAdd(product, carry);
  carry = b.CreateAdd(high_product(ir, d.mantissa, words[1]), b.CreateZExt(b.CreateICmpULT(low, product), i64));
  return {b.CreateAdd(b.CreateMul(d.mantissa, words[0]), carry), low};
}

// high * 2^-62 quarter turns as an f32, by a product in f64.
Value* f32_of_turns(Ir& ir, Value* high) {
  auto& b = ir.b;
  Value* wide = b.CreateSIToFP(high, b.getDoubleTy());
  return b.CreateFPTrunc(b.CreateFMul(wide, number(wide, 0x1.921fb54442d18p-62)), b.getFloatTy());
}

// Two words of them as an f64: the 64 bits from the highest one on, times their unit.
Value* f64_of_turns(Ir& ir, const Fraction& turns) {
  auto& b = ir.b;
  llvm::Type* i64 = b.getInt64Ty();
  Value* sign = b.CreateAShr(turns.high, b.getInt64(63));
  Value *high = b.CreateXor(turns.high, sign), *low = b.CreateXor(turns.low, sign);
  Value* zeros = b.CreateIntrinsic(intrinsic::ctlz, {i64}, {high, b.getFalse()});
  Value* some = b.CreateIntrinsic(intrinsic::fshl, {i64}, {high, low, zeros});
  Value* top = b.CreateSelect(b.CreateICmpEQ(high, b.getInt64(0)), low, some);
  Value* unit =
      b.CreateBitCast(b.CreateShl(b.CreateSub(b.getInt64(1023 - 62), zeros), b.getInt64(52)), b.getDoubleTy());
  Value* rest =
      b.CreateFMul(b.CreateFMul(b.CreateUIToFP(top, b.getDoubleTy()), number(unit, 0x1.921fb54442d18p+0)), unit);
  return b.CreateSelect(b.CreateICmpEQ(sign, b.getInt64(0)), rest, b.CreateFNeg(rest));
}

Turn far_turn(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value* magnitude = absolute(ir, x);
  Fraction turns = turns_of(ir, magnitude, is_double(x) ? 3 : 2);
  Value* n = b.CreateLShr(b.CreateAdd(turns.high, b.getInt64(int64_t{1} << 61)), b.getInt64(62));
  turns.high = b.CreateSub(turns.high, b.CreateShl(n, b.getInt64(62)));
  Value* rest = is_double(x) ? f64_of_turns(ir, turns) : f32_of_turns(ir, turns.high);
  Value* is_negative = b.CreateFCmpOLT(x, number(x, 0));
  rest = b.CreateSelect(is_negative, b.CreateFNeg(rest), rest);
  n = b.CreateSelect(is_negative, b.CreateNeg(n), n);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  rest = b.CreateSelect(b.CreateFCmpOEQ(magnitude, number(x, kInf)), number(x, std::nan("")), rest);
  return {rest, b.CreateTrunc(n, as_bits(ir, rest)->getType())};
}

// The two branches give both values as a vector of integers.
Turn reduce_turn(Ir& ir, Value* x) {
  auto& b = ir.b;
  const auto joined = [&](const Turn& turn) {
    Value* rest = as_bits(ir, turn.rest);
    Value* both = llvm::PoisonValue::get(llvm::FixedVectorType::get(rest->getType(), 2));
    return b.CreateInsertElement(b.CreateInsertElement(both, rest, uint64_t{0}), turn.n, uint64_t{1});
  };
  Value* is_near = b.CreateFCmpULE(absolute(ir, x), number(x, is_double(x) ? 0x1p19 : 0x1p15));
  Value* both = usually(
      ir, is_near, [&] { return joined(near_turn(ir, x)); }, [&] { return joined(far_turn(ir, x)); });
  return {b.CreateBitCast(b.CreateExtractElement(both, uint64_t{0}), x->getType()),
          b.CreateExtractElement(both, uint64_t{1})};
}

// sin r = r*(1 + r^2*P(r^2)), 1.7e-10 in f32 and 1.2e-19 in f64; keeps -0.
Value* sin_of_rest(Ir& ir, Value* r) {
  Value* square = ir.b.CreateFMul(r, r);
  Value* p =
      is_double(r)
          ? polynomial(ir, square,
                       {-0x1.5555555555555p-3, 0x1.1111111111089p-7, -0x1.a01a01a006678p-13, 0x1.71de3a3f8491fp-19,
                        -0x1.ae643c8a9ace8p-26, 0x1.611437c2faf85p-33, -0x1.a52a31a2bac57p-41})
          : polynomial(ir, square, {-0x1.555556p-3, 0x1.111174p-7, -0x1.a05968p-13, 0x1.7c367ap-19});
  return ir.b.CreateFMul(r, fma(ir, square, p, number(r, 1)));
}

// cos r = 1 - r^2/2 + r^4*P(r^2), 1.2e-10 and 2.2e-18.
Value* cos_of_rest(Ir& ir, Value* r) {
  Value* square = ir.b.CreateFMul(r, r);
  Value* p = is_double(r) ? polynomial(ir, square,
                                       {0x1.5555555555555p-5, -0x1.6c16c16c168c8p-10, 0x1.a01a019f37b6ap-16,
                                        -0x1.27e4fa021091dp-22, 0x1.1eeb56d050bb6p-29, -0x1.9072b5ccd79d2p-37})
                          : polynomial(ir, square, {0x1.55554ap-5, -0x1.6c0c28p-10, 0x1.99e816p-16});
  return fma(ir, ir.b.CreateFMul(square, square), p, fma(ir, square, -0.5, number(r, 1)));
}

Value* is_odd(Ir& ir, Value* n) { return ir.b.CreateICmpNE(ir.b.CreateAnd(n, integer(n, 1)), integer(n, 0)); }

// sin(x + quarter*pi/2): sin or cos of the rest by the parity of n + quarter, its sign by the next bit.
Value* sin_or_cos(Ir& ir, Value* x, int quarter) {
  auto& b = ir.b;
  const Turn turn = reduce_turn(ir, x);
  Value* n = b.CreateAdd(turn.n, integer(turn.n, quarter));
  Value* out = b.CreateSelect(is_odd(ir, n), cos_of_rest(ir, turn.rest), sin_of_rest(ir, turn.rest));
  const int64_t last = is_double(x) ? 63 : 31;
  Value* sign = b.CreateShl(b.CreateAnd(n, integer(n, 2)), integer(n, last - 1));
  return b.CreateBitCast(b.CreateXor(as_bits(ir, out), sign), x->getType());
}

// a / b for a b that is no denormal, within 1 ulp; of a zero, the zero.
Value* quotient(Ir& ir, Value* a, Value* b) {
  auto& builder = ir.b;
  if (is_double(a)) return builder.CreateFDiv(a, b);
  Value* inverse = builder.CreateIntrinsic(intrinsic::nvvm_rcp_approx_ftz_f, {}, {b});
  Value* near = builder.CreateFMul(a, inverse);
  Value* excess = fma(ir, b, near, builder.CreateFNeg(a));
  return fma(ir, builder.CreateFNeg(excess), inverse, near);
}

// What depends only on the numbers of fmod: the exponent as it is stored, 1 for denormals, and the mantissa.
struct Stored {
  Value *exponent, *mantissa;
};
Stored stored(Ir& ir, Value* magnitude, int places) {
  auto& b = ir.b;
  Value* bits = as_bits(ir, magnitude);
  Value* exponent = b.CreateLShr(bits, integer(bits, places));
  Value* fraction = b.CreateAnd(bits, integer(bits, (int64_t{1} << places) - 1));
  Value* is_denormal = b.CreateICmpEQ(exponent, integer(bits, 0));
  return {b.CreateSelect(is_denormal, integer(bits, 1), exponent),
          b.CreateSelect(is_denormal, fraction, b.CreateOr(fraction, integer(bits, int64_t{1} << places)))};
}

// dividend * 2^shifts modulo the divisor, as many bits at a time as the integer has room for.
Value* long_remainder(Ir& ir, Value* dividend, Value* divisor, Value* shifts, int room) {
  auto& b = ir.b;
  llvm::Function* function = b.GetInsertBlock()->getParent();
  Value* first = b.CreateURem(dividend, divisor);
  llvm::BasicBlock* before = b.GetInsertBlock();
  const auto block = [&](const char* name) { return llvm::BasicBlock::Create(b.getContext(), name, function); };
  llvm::BasicBlock *head = block("remainder"), *body = block(""), *exit = block("");
  b.CreateBr(head);
  b.SetInsertPoint(head);
  llvm::PHINode *rest = b.CreatePHI(first->getType(), 2), *left = b.CreatePHI(first->getType(), 2);
  rest->addIncoming(first, before);
  left->addIncoming(shifts, before);
  b.CreateCondBr(b.CreateICmpSGT(left, integer(left, 0)), body, exit);
  b.SetInsertPoint(body);
  Value* count = call_intrinsic(ir, intrinsic::smin, {left, integer(left, room)});
  rest->addIncoming(b.CreateURem(b.CreateShl(rest, count), divisor), body);
  left->addIncoming(b.CreateSub(left, count), body);
  b.CreateBr(head);
  b.SetInsertPoint(exit);
  return rest;
}

}  // namespace

Value* sin(Ir& ir, Value* x) { return sin_or_cos(ir, x, 0); }
Value* cos(Ir& ir, Value* x) { return sin_or_cos(ir, x, 1); }

// sin/cos of the rest, or -cos/sin where n is odd.
Value* tan(Ir& ir, Value* x) {
  auto& b = ir.b;
  const Turn turn = reduce_turn(ir, x);
  Value *s = sin_of_rest(ir, turn.rest), *c = cos_of_rest(ir, turn.rest), *odd = is_odd(ir, turn.n);
  return quotient(ir, b.CreateSelect(odd, c, s), b.CreateSelect(odd, b.CreateFNeg(s), c));
}

Value* fmod(Ir& ir, Value* x, Value* y) {
  auto& b = ir.b;
  const int places = is_double(x) ? 52 : 23;
  Value *a = absolute(ir, x), *m = absolute(ir, y);
  const Stored dividend = stored(ir, a, places), divisor = stored(ir, m, places);
  Value* shifts = b.CreateSub(dividend.exponent, divisor.exponent);
  Value* not_zero = call_intrinsic(ir, intrinsic::umax, {divisor.mantissa, integer(shifts, 1)});
  Value* rest = long_remainder(ir, dividend.mantissa, not_zero, shifts, is_double(x) ? 11 : 8);
  // Both products are exact.
  Value* unit = b.CreateBitCast(b.CreateShl(divisor.exponent, integer(shifts, places)), x->getType());
  Value* out =
      b.CreateFMul(b.CreateFMul(b.CreateUIToFP(rest, x->getType()), number(x, std::ldexp(1.0, -places))), unit);
  out = b.CreateSelect(b.CreateICmpSLT(shifts, integer(shifts, 0)), a, out);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  Value* is_bad = b.CreateOr(b.CreateFCmpUEQ(a, number(x, kInf)), b.CreateFCmpUEQ(m, number(x, 0)));
  out = b.CreateSelect(is_bad, number(x, std::nan("")), out);
  return call_intrinsic(ir, intrinsic::copysign, {out, x});
}

}  // namespace fusec::codegen::nvptx

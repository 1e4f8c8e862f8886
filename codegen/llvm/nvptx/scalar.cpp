// SPDX-License-Identifier: Apache-2.0
// The `TargetHooks` table of NVPTX: conversions, min/max and functions. Functions that have their own formula in
// codegen/cuda use the same formula here; all others call libdevice.

#include <fmt/format.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include "codegen/llvm/values.h"
#include "ir/support/check.h"

namespace fusec::codegen::nvptx {
namespace {

using llvm::Value;
namespace intrinsic = llvm::Intrinsic;

// Applies f to every lane.
template <class F>
Value* by_lane(Ir& ir, Value* v, llvm::Type* scalar, const F& f) {
  const int width = width_of(v);
  if (width == 1) return f(v, 0);
  Value* out = llvm::PoisonValue::get(with_width(scalar, width));
  for (int k = 0; k < width; ++k) {
    const auto lane = static_cast<uint64_t>(k);
    out = ir.b.CreateInsertElement(out, f(ir.b.CreateExtractElement(v, lane), k), lane);
  }
  return out;
}

Value* by_intrinsic(Ir& ir, intrinsic::ID id, Value* v, llvm::Type* scalar) {
  return by_lane(ir, v, scalar, [&](Value* lane, int) -> Value* { return ir.b.CreateIntrinsic(id, {}, {lane}); });
}

// A PTX instruction with one operand, as inline assembly, which LLVM does not look into. LLVM would replace its
// conversion intrinsics by its own conversions, which are undefined if a number does not fit and round integers to
// nearest.
Value* by_instruction(Ir& ir, std::string_view name, Value* v, llvm::Type* scalar) {
  const auto constraint = [](llvm::Type* type) {
    if (type->isFloatTy()) return 'f';
    if (type->isDoubleTy()) return 'd';
    return type->isIntegerTy(64) ? 'l' : 'r';
  };
  llvm::Type* from = v->getType()->getScalarType();
  auto* instruction =
      llvm::InlineAsm::get(llvm::FunctionType::get(scalar, {from}, false), fmt::format("{} $0, $1;", name),
                           fmt::format("={},{}", constraint(scalar), constraint(from)), /*hasSideEffects=*/false);
  return by_lane(ir, v, scalar, [&](Value* lane, int) -> Value* { return ir.b.CreateCall(instruction, {lane}); });
}

bool is_f64(const Value* v) { return v->getType()->getScalarType()->isDoubleTy(); }
Value* fma(Ir& ir, Value* a, Value* b, Value* c) { return call_intrinsic(ir, intrinsic::fma, {a, b, c}); }
Value* fma(Ir& ir, double a, Value* b, Value* c) { return fma(ir, number(b, a), b, c); }
Value* as_float(Ir& ir, Value* bits) { return ir.b.CreateBitCast(bits, retyped(bits, ir.b.getFloatTy())); }

// Halves.

Value* f32_from_f16(Ir& ir, Value* raw) {
  auto& b = ir.b;
  return b.CreateFPExt(b.CreateBitCast(raw, retyped(raw, b.getHalfTy())), retyped(raw, b.getFloatTy()));
}

Value* f16_from_f32(Ir& ir, Value* f) {
  auto& b = ir.b;
  return b.CreateBitCast(b.CreateFPTrunc(f, retyped(f, b.getHalfTy())), retyped(f, b.getInt16Ty()));
}

Value* bf16_from_f32(Ir& ir, Value* f) {
  auto& b = ir.b;
  if (ir.target.sm < 80) return host::bf16_from_f32(ir, f);
  return by_lane(ir, f, b.getInt16Ty(), [&](Value* lane, int) -> Value* {
    return b.CreateBitCast(b.CreateIntrinsic(intrinsic::nvvm_f2bf16_rn, {}, {lane}), b.getInt16Ty());
  });
}

// Casts.

// Truncates and saturates.
Value* to_integer(Ir& ir, Value* f, bool is_signed, unsigned bits) {
  return by_instruction(ir, fmt::format("cvt.rzi.{}{}.{}", is_signed ? 's' : 'u', bits, is_f64(f) ? "f64" : "f32"), f,
                        ir.b.getIntNTy(bits));
}

Value* integer_from_float(Ir& ir, DType to, Value* f) {
  auto& b = ir.b;
  const auto bits = static_cast<unsigned>(8 * size_of(to));
  const bool is_signed = is_signed_int(to);
  Value* v = to_integer(ir, f, is_signed || bits < 32, std::max(32u, bits));
  v = b.CreateSelect(b.CreateFCmpUNO(f, f), llvm::Constant::getNullValue(v->getType()), v);
  if (bits >= 32) return v;
  const int64_t low = is_signed ? -(int64_t{1} << (bits - 1)) : 0,
                high = (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
  v = call_intrinsic(ir, intrinsic::smin,
                     {call_intrinsic(ir, intrinsic::smax, {v, integer(v, low)}), integer(v, high)});
  return b.CreateTrunc(v, retyped(v, b.getIntNTy(bits)));
}

// Rounds to odd, so that a second rounding to a half equals a single rounding. `near` is rounded toward zero; `exact`
// says whether that was exact.
Value* with_sticky_bit(Ir& ir, Value* near, Value* exact) {
  Value* bits = as_bits(ir, near);
  return ir.b.CreateSelect(exact, near, as_float(ir, ir.b.CreateOr(bits, integer(bits, 1))));
}

Value* odd_from_f64(Ir& ir, Value* v) {
  auto& b = ir.b;
  Value* near = by_instruction(ir, "cvt.rz.f32.f64", v, b.getFloatTy());
  return with_sticky_bit(ir, near, b.CreateFCmpUEQ(b.CreateFPExt(near, v->getType()), v));
}

Value* odd_from_int(Ir& ir, bool is_signed, Value* v) {
  auto& b = ir.b;
  llvm::Type* wide = retyped(v, b.getInt64Ty());
  v = is_signed ? b.CreateSExt(v, wide) : b.CreateZExt(v, wide);
  Value* near = by_instruction(ir, is_signed ? "cvt.rz.f32.s64" : "cvt.rz.f32.u64", v, b.getFloatTy());
  return with_sticky_bit(ir, near, b.CreateICmpEQ(to_integer(ir, near, is_signed, 64), v));
}

Value* gpu_convert(Ir& ir, DType from, DType to, Value* v) {
  auto& b = ir.b;
  if (is_float(from) && is_int(to)) return integer_from_float(ir, to, v);
  if (!is_16_bit_float(to) || from == DType::bool_) return nullptr;
  if (is_float(from)) return is_f64(v) ? narrow(ir, to, odd_from_f64(ir, v)) : nullptr;
  const bool is_signed = is_signed_int(from);
  if (size_of(from) > 2) return narrow(ir, to, odd_from_int(ir, is_signed, v));
  llvm::Type* f32 = retyped(v, b.getFloatTy());
  return narrow(ir, to, is_signed ? b.CreateSIToFP(v, f32) : b.CreateUIToFP(v, f32));
}

// max.NaN also orders zeros. Before sm_80, and for f64, the hardware instructions drop NaN.
Value* gpu_extreme(Ir& ir, bool is_max, Value* x, Value* y) {
  auto& b = ir.b;
  if (!is_f64(x) && ir.target.sm >= 80)
    return call_intrinsic(ir, is_max ? intrinsic::maximum : intrinsic::minimum, {x, y});
  const intrinsic::ID id = is_f64(x) ? (is_max ? intrinsic::nvvm_fmax_d : intrinsic::nvvm_fmin_d)
                                     : (is_max ? intrinsic::nvvm_fmax_f : intrinsic::nvvm_fmin_f);
  Value* number = by_lane(ir, x, x->getType()->getScalarType(), [&](Value* lane, int k) -> Value* {
    Value* other = width_of(y) == 1 ? y : b.CreateExtractElement(y, static_cast<uint64_t>(k));
    return b.CreateIntrinsic(id, {}, {lane, other});
  });
  return b.CreateSelect(b.CreateFCmpUNO(x, y), b.CreateFAdd(x, y), number);
}

// Functions of f32.

Value* exp2_approx(Ir& ir, Value* x) {
  return by_intrinsic(ir, intrinsic::nvvm_ex2_approx_ftz_f, x, ir.b.getFloatTy());
}

// x = n*ln2 + r; the low bits of `shifted` hold n. 2 ulp, like CUDA's expf.
Value* exp_f32(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value* part = fma(ir, x, number(x, 0x1.77313p-8), number(x, 0.5));  // log2(e) / 252
  part = by_intrinsic(ir, intrinsic::nvvm_saturate_f, part, b.getFloatTy());
  Value* shifted = by_lane(ir, part, b.getFloatTy(), [&](Value* lane, int) -> Value* {
    return b.CreateIntrinsic(intrinsic::nvvm_fma_rm_f, {}, {lane, number(lane, 252), number(lane, 12582913)});
  });
  Value* n = b.CreateFSub(shifted, number(x, 12583039));
  Value* r = fma(ir, x, number(x, 0x1.715476p+0), b.CreateFNeg(n));
  r = fma(ir, x, number(x, 0x1.4ae0cp-26), r);
  Value* bits = as_bits(ir, shifted);
  return b.CreateFMul(exp2_approx(ir, r), as_float(ir, b.CreateShl(bits, integer(bits, 23))));
}

// |x| < 0.55: x + x^3*P(x^2); else 1 - 2 / (exp(2|x|) + 1). 2 ulp.
Value* tanh_f32(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value *square = b.CreateFMul(x, x), *magnitude = call_intrinsic(ir, intrinsic::fabs, {x});
  Value* p = fma(ir, -0.006610227825f, square, number(x, 0.02130938866f));
  for (const float c : {-0.05390942883f, 0.1333311373f, -0.3333333201f}) p = fma(ir, p, square, number(x, c));
  Value* small = fma(ir, b.CreateFMul(x, square), p, x);
  Value* e = exp2_approx(ir, b.CreateFMul(magnitude, number(x, 2.885390082f)));
  Value* inverse = by_intrinsic(ir, intrinsic::nvvm_rcp_approx_ftz_f, b.CreateFAdd(e, number(x, 1)), b.getFloatTy());
  Value* large = fma(ir, -2.0, inverse, number(x, 1));
  Value* out = b.CreateSelect(b.CreateFCmpOGE(magnitude, number(x, 0.55f)), large, small);
  return call_intrinsic(ir, intrinsic::copysign, {out, x});
}

// x| < 0.9: x + x*P(x^2), 1.4e-8; else 1 - 2^Q(|x|) with Q = log2(erfc); the result is 1 from 4 on.
Value* erf_f32(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value *square = b.CreateFMul(x, x), *magnitude = call_intrinsic(ir, intrinsic::fabs, {x});
  Value* held = gpu_extreme(ir, false, magnitude, number(x, 4));
  Value* p = fma(ir, -0x1.3c61c8p-11, square, number(x, 0x1.47c73p-8));
  for (const double c : {-0x1.b6a25p-6, 0x1.ce1bfp-4, -0x1.8126eep-2, 0x1.06eba6p-3})
    p = fma(ir, p, square, number(x, c));
  Value* q = fma(ir, 0x1.2bdc98p-12, held, number(x, -0x1.21d634p-8));
  for (const double c : {0x1.07bbb4p-5, -0x1.339e42p-3, -0x1.d6823ap-1, -0x1.a0877ep+0, -0x1.f791e6p-13}) {
    q = fma(ir, q, held, number(x, c));
  }
  Value* large = b.CreateFSub(number(x, 1), exp2_approx(ir, q));
  large = call_intrinsic(ir, intrinsic::copysign, {large, x});
  return b.CreateSelect(b.CreateFCmpOLT(magnitude, number(x, 0.9f)), fma(ir, x, p, x), large);
}

// e / (1 + e) with e = exp(-|x|), or 1 / (1 + e). Nothing overflows, and the divisor lies in 1 .. 2, so it needs no
// test. After one Newton step the reciprocal rounds as a division does.
Value* sigmoid_f32(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value* e = exp_f32(ir, b.CreateFNeg(call_intrinsic(ir, intrinsic::fabs, {x})));
  Value* divisor = b.CreateFAdd(e, number(x, 1));
  Value* inverse = by_intrinsic(ir, intrinsic::nvvm_rcp_approx_ftz_f, divisor, b.getFloatTy());
  Value* rest = fma(ir, b.CreateFNeg(divisor), inverse, number(x, 1));
  inverse = fma(ir, inverse, rest, inverse);
  return b.CreateFMul(b.CreateSelect(b.CreateFCmpOLT(x, number(x, 0)), e, number(x, 1)), inverse);
}

// 2^y for y = (x + low)*c, with c in two parts: (1 + rest) * power. The power is too large by 2^64, so that a last
// factor 2^-64 rounds denormal results once. exp2_approx is not accurate enough.
struct Exp2 {
  Value* rest;
  Value* power;
};
Exp2 exp2_plus_64(Ir& ir, Value* x, Value* low, double c) {
  auto& b = ir.b;
  constexpr double kMagic = 0x1.8p23;  // leaves the integer nearest to y in the low bits
  const double first = static_cast<float>(c);
  Value* shifted = fma(ir, first, x, number(x, kMagic));
  Value* y = fma(ir, first, x, b.CreateFSub(number(x, kMagic), shifted));
  y = fma(ir, first, low, fma(ir, c - first, x, y));
  y = b.CreateFMul(y, number(x, 0x1.62e43p-1));
  Value* p = fma(ir, 0x1.6b9c3ep-10, y, number(x, 0x1.12253ap-7));
  for (const double k : {0x1.5556f2p-5, 0x1.5554b4p-3, 0x1.fffffep-2}) p = fma(ir, p, y, number(x, k));
  Value* bits = as_bits(ir, shifted);
  Value* power = as_float(ir, b.CreateAdd(b.CreateShl(bits, integer(bits, 23)), integer(bits, 191 << 23)));
  return {fma(ir, b.CreateFMul(y, y), p, y), power};
}

constexpr double kLog2E = 0x1.71547652b82fep+0;

// max(x, 0) - |x| * Phi(-|x|); the same formula as in codegen/cuda/prelude.cpp.
Value* gelu_f32(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value* t = gpu_extreme(ir, false, call_intrinsic(ir, intrinsic::fabs, {x}), number(x, 15));
  Value* square = b.CreateFMul(t, t);
  const Exp2 e = exp2_plus_64(ir, square, fma(ir, t, t, b.CreateFNeg(square)), -0.5 * kLog2E);
  Value* divisor = b.CreateFAdd(t, number(x, 2.5));
  Value* inverse = by_intrinsic(ir, intrinsic::nvvm_rcp_approx_ftz_f, divisor, b.getFloatTy());
  Value* q = b.CreateFMul(t, inverse);
  q = fma(ir, fma(ir, b.CreateFNeg(divisor), q, t), inverse, q);
  Value* p = number(x, -0x1.962a42p-6);
  for (const double c : {0x1.b07398p-6, 0x1.6183ccp-4, -0x1.e47558p-4, 0x1.3993acp-6, -0x1.ae0cbcp-4, 0x1.775604p-5,
                         0x1.2c3bp-2, 0x1.5b2e68p-3, -0x1.3e4ed4p+0, 0x1.4p+0}) {
    p = fma(ir, p, q, number(x, c));
  }
  p = b.CreateFMul(p, q);
  p = b.CreateFMul(fma(ir, p, e.rest, p), e.power);
  Value* sign = b.CreateSelect(b.CreateFCmpOGT(x, number(x, 0)), number(x, 1), number(x, 0));
  return fma(ir, x, sign, b.CreateFMul(p, number(x, -0x1p-64)));  // -infinity * 0 is NaN
}

// x / (1 + exp(-y)); the same formula as in codegen/cuda/prelude.cpp.
Value* gelu_tanh_f32(Ir& ir, Value* x) {
  auto& b = ir.b;
  constexpr double kFirst = 22.36328125;
  Value* t = gpu_extreme(ir, false, call_intrinsic(ir, intrinsic::fabs, {x}), number(x, 11));
  Value *sum = fma(ir, t, t, number(x, kFirst)), *product = b.CreateFMul(t, sum);
  Value* low = b.CreateFAdd(fma(ir, t, t, b.CreateFSub(number(x, kFirst), sum)), number(x, 1 / 0.044715 - kFirst));
  low = fma(ir, t, low, fma(ir, t, sum, b.CreateFNeg(product)));
  const Exp2 y = exp2_plus_64(ir, product, low, -2 * 0.79788456080286535588 * 0.044715 * kLog2E);
  Value* e = b.CreateFMul(b.CreateFAdd(y.rest, number(x, 1)), y.power);
  e = b.CreateSelect(b.CreateFCmpOGT(t, number(x, 10.8)), number(x, 0), e);  // -infinity * 0 is NaN
  Value* divisor = fma(ir, 0x1p-64, e, number(x, 1));
  Value* inverse = by_intrinsic(ir, intrinsic::nvvm_rcp_approx_ftz_f, divisor, b.getFloatTy());
  inverse = fma(ir, inverse, fma(ir, b.CreateFNeg(divisor), inverse, number(x, 1)), inverse);
  Value* above = b.CreateFMul(x, inverse);
  Value* below = b.CreateFMul(b.CreateFMul(above, e), number(x, 0x1p-64));
  return b.CreateSelect(b.CreateFCmpOLT(x, number(x, 0)), below, above);
}

Value* libdevice(Ir& ir, const std::string& name, const std::vector<Value*>& args) {
  auto& b = ir.b;
  llvm::Type* scalar = args[0]->getType()->getScalarType();
  auto* type = llvm::FunctionType::get(scalar, std::vector<llvm::Type*>(args.size(), scalar), false);
  const std::string full = "__nv_" + name + (scalar->isDoubleTy() ? "" : "f");
  const llvm::FunctionCallee callee = b.GetInsertBlock()->getModule()->getOrInsertFunction(full, type);
  return by_lane(ir, args[0], scalar, [&](Value* first, int k) -> Value* {
    std::vector<Value*> operands = {first};
    for (std::size_t i = 1; i < args.size(); ++i) {
      operands.push_back(width_of(args[i]) == 1 ? args[i] : b.CreateExtractElement(args[i], static_cast<uint64_t>(k)));
    }
    return b.CreateCall(callee, operands);
  });
}

Value* sigmoid_f64(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value *e = libdevice(ir, "exp", {b.CreateFNeg(call_intrinsic(ir, intrinsic::fabs, {x}))}), *one = number(x, 1);
  return b.CreateFDiv(b.CreateSelect(b.CreateFCmpOLT(x, number(x, 0)), e, one), b.CreateFAdd(e, one));
}

Value* gelu_f64(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value* rest = libdevice(ir, "erfc", {b.CreateFMul(x, number(x, -0.70710678118654752440))});
  return b.CreateFMul(b.CreateFMul(x, number(x, 0.5)), rest);
}

Value* gelu_tanh_f64(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value* cube = b.CreateFMul(b.CreateFMul(b.CreateFMul(number(x, 0.044715), x), x), x);
  Value* e = libdevice(ir, "exp", {b.CreateFMul(number(x, -2 * 0.79788456080286535588), b.CreateFAdd(x, cube))});
  return b.CreateFDiv(x, b.CreateFAdd(number(x, 1), e));
}

// The functions of the `nvptx` column.

Value* exp(Ir& ir, Value* x) { return is_f64(x) ? libdevice(ir, "exp", {x}) : exp_f32(ir, x); }
Value* tanh(Ir& ir, Value* x) { return is_f64(x) ? libdevice(ir, "tanh", {x}) : tanh_f32(ir, x); }
Value* erf(Ir& ir, Value* x) { return is_f64(x) ? libdevice(ir, "erf", {x}) : erf_f32(ir, x); }
Value* sigmoid(Ir& ir, Value* x) { return is_f64(x) ? sigmoid_f64(ir, x) : sigmoid_f32(ir, x); }
Value* gelu(Ir& ir, Value* x) { return is_f64(x) ? gelu_f64(ir, x) : gelu_f32(ir, x); }
Value* gelu_tanh(Ir& ir, Value* x) { return is_f64(x) ? gelu_tanh_f64(ir, x) : gelu_tanh_f32(ir, x); }

using Build = Value* (*)(Ir&, Value*);
constexpr Build library = nullptr;

Value* build(Ir& ir, Build own, const char* name, Value* x) { return own ? own(ir, x) : libdevice(ir, name, {x}); }

Value* gpu_function(Ir& ir, ir::ScalarOp op, Value* x) {
  switch (op) {
#define SCALAR_OP(...)
#define SCALAR_DEF(...)
#define SCALAR_FN(name, reference, cuda, host, nvptx, ...) \
  case ir::ScalarOp::name:                                 \
    return build(ir, nvptx, #name, x);
#include "ir/ops/scalar_ops.def"
    default:
      break;
  }
  FUSEC_CHECK(false) << ir::info(op).name << " is no function of one float";
  return nullptr;
}

Value* gpu_fma(Ir& ir, Value* a, Value* b, Value* c) { return libdevice(ir, "fma", {a, b, c}); }

}  // namespace
}  // namespace fusec::codegen::nvptx

namespace fusec::codegen {

const TargetHooks& nvptx_hooks() {
  static constexpr TargetHooks kNvptx = {.f32_from_f16 = nvptx::f32_from_f16,
                                         .f16_from_f32 = nvptx::f16_from_f32,
                                         .bf16_from_f32 = nvptx::bf16_from_f32,
                                         .convert = nvptx::gpu_convert,
                                         .min_max = nvptx::gpu_extreme,
                                         .fma = nvptx::gpu_fma,
                                         .library = nvptx::libdevice,
                                         .function = nvptx::gpu_function};
  return kNvptx;
}

}  // namespace fusec::codegen

// SPDX-License-Identifier: Apache-2.0
// Builds conversions between dtypes as LLVM IR, shared by the host and NVPTX emitters. Each conversion must round once,
// also where it goes through a wider type; the host versions replace missing f16 and bf16 instructions by integer
// arithmetic.

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/ValueSymbolTable.h>

#include <cmath>
#include <limits>

#include "codegen/llvm/values.h"
#include "ir/support/check.h"

namespace fusec::codegen {
namespace {

using llvm::Value;

Value* as_float(Ir& ir, Value* bits) {
  const bool wide = bits->getType()->getScalarSizeInBits() == 64;
  return ir.b.CreateBitCast(bits, retyped(bits, wide ? ir.b.getDoubleTy() : ir.b.getFloatTy()));
}

Value* f32_from_f16(Ir& ir, Value* raw) {
  auto& b = ir.b;
  if (ir.target.has_f16c) {
    return b.CreateFPExt(b.CreateBitCast(raw, retyped(raw, b.getHalfTy())), retyped(raw, b.getFloatTy()));
  }
  // Moves exponent and fraction into place and scales by 2^(127 - 15). That is exact, and it normalizes denormals.
  Value* bits = b.CreateZExt(raw, retyped(raw, b.getInt32Ty()));
  Value* magnitude = b.CreateShl(b.CreateAnd(bits, integer(bits, 0x7fff)), integer(bits, 13));
  Value* scaled = b.CreateFMul(as_float(ir, magnitude), number(as_float(ir, magnitude), 0x1p112));
  Value* special = b.CreateICmpUGE(magnitude, integer(bits, 0x7c00 << 13));
  Value* nan = b.CreateICmpUGT(magnitude, integer(bits, 0x7c00 << 13));
  Value* quiet = b.CreateSelect(nan, integer(bits, 0x7fc00000), integer(bits, 0x7f800000));
  Value* out = b.CreateSelect(special, b.CreateOr(magnitude, quiet), as_bits(ir, scaled));
  Value* sign = b.CreateShl(b.CreateAnd(bits, integer(bits, 0x8000)), integer(bits, 16));
  return as_float(ir, b.CreateOr(out, sign));
}

Value* f16_from_f32(Ir& ir, Value* f) {
  auto& b = ir.b;
  if (ir.target.has_f16c) {
    return b.CreateBitCast(b.CreateFPTrunc(f, retyped(f, b.getHalfTy())), retyped(f, b.getInt16Ty()));
  }
  Value* bits = as_bits(ir, f);
  Value* magnitude = b.CreateAnd(bits, integer(bits, 0x7fffffff));
  // Below 2^-14, the sum with 0.5 has a unit in the last place of 2^-24, that of f16 denormals.
  Value* half = number(f, 0.5);
  Value* denormal = b.CreateSub(as_bits(ir, b.CreateFAdd(as_float(ir, magnitude), half)), integer(bits, 0x3f000000));
  Value* odd = b.CreateAnd(b.CreateLShr(magnitude, integer(bits, 13)), integer(bits, 1));
  Value* rounded = b.CreateAdd(b.CreateAdd(magnitude, odd), integer(bits, 0xfff - (112 << 23)));
  Value* normal = b.CreateLShr(rounded, integer(bits, 13));
  Value* out = b.CreateSelect(b.CreateICmpULT(magnitude, integer(bits, 113 << 23)), denormal, normal);
  out = b.CreateSelect(b.CreateICmpUGE(magnitude, integer(bits, 0x477ff000)), integer(bits, 0x7c00), out);
  Value* payload = b.CreateAnd(b.CreateLShr(magnitude, integer(bits, 13)), integer(bits, 0x3ff));
  Value* nan = b.CreateOr(payload, integer(bits, 0x7e00));
  out = b.CreateSelect(b.CreateICmpUGT(magnitude, integer(bits, 0x7f800000)), nan, out);
  Value* sign = b.CreateAnd(b.CreateLShr(bits, integer(bits, 16)), integer(bits, 0x8000));
  return b.CreateTrunc(b.CreateOr(out, sign), retyped(f, b.getInt16Ty()));
}

// A mask of the upper half of each of 16 floats, in pieces, whose value is hidden from LLVM. LLVM would turn a select
// by a known mask into a two-register permutation, which is seven times as slow. Made once per function.
Value* upper_halves(Ir& ir, unsigned pieces) {
  auto& b = ir.b;
  constexpr const char* kName = "upper.halves";
  if (Value* made = b.GetInsertBlock()->getParent()->getValueSymbolTable()->lookup(kName)) return made;
  llvm::IRBuilder<>::InsertPointGuard guard(b);
  llvm::BasicBlock& entry = b.GetInsertBlock()->getParent()->getEntryBlock();
  b.SetInsertPoint(&entry, entry.begin());
  llvm::Type* bits = b.getIntNTy(pieces);
  auto* itself =
      llvm::InlineAsm::get(llvm::FunctionType::get(bits, {bits}, false), "", "=r,0", /*hasSideEffects=*/false);
  const uint64_t halves = pieces == 64 ? 0xcccccccccccccccc : 0xaaaaaaaa;
  Value* mask = b.CreateCall(itself, {b.getIntN(pieces, halves)});
  return b.CreateBitCast(mask, llvm::FixedVectorType::get(b.getInt1Ty(), pieces), kName);
}

// Converts sixteen lanes starting at `from` with one masked permutation, which moves each word to the upper half of a
// float. Uses the byte permutation where the target has it (VBMI), which needs half the ports of the word permutation.
Value* f32_by_permutation(Ir& ir, Value* raw, int from) {
  auto& b = ir.b;
  const bool bytes = ir.target.has("avx512vbmi");
  Value* words = width_of(raw) == 32 ? raw : lanes_from(ir, raw, from / 32 * 32, 32);
  if (bytes) words = b.CreateBitCast(words, with_width(b.getInt8Ty(), 64));
  std::vector<llvm::Constant*> index;
  for (int k = 0; k < (bytes ? 64 : 32); ++k) {
    index.push_back(bytes ? b.getInt8(static_cast<uint8_t>(2 * (from % 32 + k / 4) + k % 2))
                          : b.getInt16(static_cast<uint16_t>(from % 32 + k / 2)));
  }
  const llvm::Intrinsic::ID permute =
      bytes ? llvm::Intrinsic::x86_avx512_permvar_qi_512 : llvm::Intrinsic::x86_avx512_permvar_hi_512;
  Value* moved = b.CreateIntrinsic(permute, {}, {words, llvm::ConstantVector::get(index)});
  Value* placed =
      b.CreateSelect(upper_halves(ir, bytes ? 64 : 32), moved, llvm::Constant::getNullValue(moved->getType()));
  return b.CreateBitCast(placed, with_width(b.getFloatTy(), 16));
}

Value* f32_from_bf16(Ir& ir, Value* raw) {
  const int width = width_of(raw);
  if (ir.target.has("avx512bw") && (width == 32 || width == 64)) {
    std::vector<Value*> parts;
    for (int from = 0; from < width; from += 16) parts.push_back(f32_by_permutation(ir, raw, from));
    return llvm::concatenateVectors(ir.b, parts);
  }
  Value* bits = ir.b.CreateZExt(raw, retyped(raw, ir.b.getInt32Ty()));
  return as_float(ir, ir.b.CreateShl(bits, integer(bits, 16)));
}

// (bits + 0x7fff + the last kept bit) >> 16; a NaN keeps its upper bits and becomes quiet.
Value* bf16_by_bits(Ir& ir, Value* f) {
  auto& b = ir.b;
  Value* bits = as_bits(ir, f);
  Value* high = b.CreateLShr(bits, integer(bits, 16));
  Value* odd = b.CreateAnd(high, integer(bits, 1));
  Value* rounded = b.CreateLShr(b.CreateAdd(b.CreateAdd(bits, integer(bits, 0x7fff)), odd), integer(bits, 16));
  Value* out = b.CreateSelect(b.CreateFCmpUNO(f, f), b.CreateOr(high, integer(bits, 0x40)), rounded);
  return b.CreateTrunc(out, retyped(f, b.getInt16Ty()));
}

// Uses the AVX512-BF16 conversions of 16 lanes or pairs of 16 lanes, which treat denormals as zeros.
Value* bf16_by_hardware(Ir& ir, Value* f) {
  auto& b = ir.b;
  Value* out = nullptr;
  if (width_of(f) == 16) out = b.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_512, {}, {f});
  for (int from = 0; width_of(f) > 16 && from < width_of(f); from += 32) {
    Value* pair = b.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtne2ps2bf16_512, {},
                                    {lanes_from(ir, f, from + 16, 16), lanes_from(ir, f, from, 16)});
    out = out ? llvm::concatenateVectors(b, {out, pair}) : pair;
  }
  return b.CreateBitCast(out, retyped(f, b.getInt16Ty()));
}

// The hardware result is zero only for zeros and denormals. Only then is the slow path checked.
Value* bf16_from_f32(Ir& ir, Value* f) {
  auto& b = ir.b;
  if (!ir.target.has("avx512bf16") || !has_classes(ir, f)) return bf16_by_bits(ir, f);
  Value* quick = bf16_by_hardware(ir, f);
  Value* zero = b.CreateICmpEQ(b.CreateAnd(quick, integer(quick, 0x7fff)), integer(quick, 0));
  return usually(
      ir, b.CreateNot(b.CreateOrReduce(zero)), [&] { return quick; },
      [&] {
        return branch(
            ir, any_of_class(ir, f, kDenormal), [&] { return bf16_by_bits(ir, f); }, [&] { return quick; });
      });
}

// f64 -> f32, rounded to odd, so that a second rounding to a shorter float equals a single rounding.
Value* f32_to_odd(Ir& ir, Value* f) {
  auto& b = ir.b;
  Value* near = b.CreateFPTrunc(f, retyped(f, b.getFloatTy()));
  Value* back = b.CreateFPExt(near, f->getType());
  Value* abs = call_intrinsic(ir, llvm::Intrinsic::fabs, {f});
  Value* past = b.CreateFCmpOGT(call_intrinsic(ir, llvm::Intrinsic::fabs, {back}), abs);
  Value* bits = as_bits(ir, near);
  Value* toward_zero = b.CreateSub(bits, b.CreateZExt(past, bits->getType()));
  Value* inexact = b.CreateZExt(b.CreateFCmpONE(back, f), bits->getType());
  return as_float(ir, b.CreateOr(toward_zero, inexact));
}

// The integer as f64, with a sticky last bit above 2^53, so that a conversion to f32 or shorter rounds once.
Value* f64_sticky(Ir& ir, bool is_signed, Value* v) {
  auto& b = ir.b;
  llvm::Type* f64 = retyped(v, b.getDoubleTy());
  const auto to_float = [&](Value* x) { return is_signed ? b.CreateSIToFP(x, f64) : b.CreateUIToFP(x, f64); };
  if (v->getType()->getScalarSizeInBits() < 64) return to_float(v);
  Value* lost = b.CreateICmpNE(b.CreateAnd(v, integer(v, 2047)), integer(v, 0));
  Value* kept = is_signed ? b.CreateAShr(v, integer(v, 11)) : b.CreateLShr(v, integer(v, 11));
  Value* sticky = b.CreateOr(kept, b.CreateZExt(lost, v->getType()));
  Value* offset = b.CreateAdd(v, integer(v, is_signed ? int64_t{1} << 53 : 0));
  Value* wide = b.CreateICmpUGT(offset, integer(v, is_signed ? int64_t{1} << 54 : int64_t{1} << 53));
  Value* scaled = b.CreateFMul(to_float(sticky), llvm::ConstantFP::get(f64, 2048.0));
  return b.CreateSelect(wide, scaled, to_float(v));
}

Value* round_to(Ir& ir, DType to, Value* f) {
  llvm::Type* type = retyped(f, to == DType::f64 ? ir.b.getDoubleTy() : ir.b.getFloatTy());
  const bool from_f64 = f->getType()->getScalarType()->isDoubleTy();
  switch (to) {
    case DType::f64:
      return from_f64 ? f : ir.b.CreateFPExt(f, type);
    case DType::f32:
      return from_f64 ? ir.b.CreateFPTrunc(f, type) : f;
    default:
      return narrow(ir, to, from_f64 ? f32_to_odd(ir, f) : f);
  }
}

Value* int_to_float(Ir& ir, DType from, DType to, Value* v) {
  llvm::Type* type = retyped(v, to == DType::f64 ? ir.b.getDoubleTy() : ir.b.getFloatTy());
  if (to != DType::f64 && to != DType::f32) return round_to(ir, to, f64_sticky(ir, is_signed_int(from), v));
  return is_signed_int(from) ? ir.b.CreateSIToFP(v, type) : ir.b.CreateUIToFP(v, type);
}

// Clamps to the floats inside the integer's range, so that the conversion is always defined. Values above the highest
// such float are selected afterwards.
Value* float_to_int(Ir& ir, DType to, Value* f) {
  auto& b = ir.b;
  const int bits = static_cast<int>(8 * size_of(to));
  const bool is_signed = is_signed_int(to);
  const bool f64 = f->getType()->getScalarType()->isDoubleTy();
  const double past = std::ldexp(1.0, is_signed ? bits - 1 : bits);
  const int precision = f64 ? 53 : 24, digits = is_signed ? bits - 1 : bits;
  const double highest = digits <= precision ? past - 1 : past - std::ldexp(1.0, digits - precision);
  Value* low = number(f, is_signed ? -past : 0.0);
  Value* high = number(f, highest);
  Value* clamped = b.CreateSelect(b.CreateFCmpOGT(f, low), f, low);  // NaN becomes low
  clamped = b.CreateSelect(b.CreateFCmpOLT(clamped, high), clamped, high);
  llvm::Type* type = retyped(f, b.getIntNTy(static_cast<unsigned>(bits)));
  llvm::Type* step = bits < 32 ? retyped(f, b.getInt32Ty()) : type;
  Value* out = is_signed || bits < 32 ? b.CreateFPToSI(clamped, step) : b.CreateFPToUI(clamped, step);
  if (step != type) out = b.CreateTrunc(out, type);
  if (digits > precision) {
    llvm::Constant* max =
        llvm::ConstantInt::get(type, is_signed ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits));
    out = b.CreateSelect(b.CreateFCmpOGE(f, number(f, past)), max, out);
  }
  return b.CreateSelect(b.CreateFCmpUNO(f, f), llvm::Constant::getNullValue(type), out);
}

}  // namespace

namespace host {

Value* f32_from_f16(Ir& ir, Value* raw) { return codegen::f32_from_f16(ir, raw); }
Value* f16_from_f32(Ir& ir, Value* f) { return codegen::f16_from_f32(ir, f); }
Value* bf16_from_f32(Ir& ir, Value* f) { return codegen::bf16_from_f32(ir, f); }

}  // namespace host

Value* widen(Ir& ir, DType dtype, Value* raw) {
  if (dtype == DType::f16) return ir.hooks.f32_from_f16(ir, raw);
  if (dtype == DType::bf16) return f32_from_bf16(ir, raw);
  return raw;
}

Value* narrow(Ir& ir, DType dtype, Value* compute) {
  if (dtype == DType::f16) return ir.hooks.f16_from_f32(ir, compute);
  if (dtype == DType::bf16) return ir.hooks.bf16_from_f32(ir, compute);
  return compute;
}

Value* convert(Ir& ir, DType from, DType to, Value* v) {
  auto& b = ir.b;
  if (to == DType::bool_) {
    if (from == DType::bool_) return v;
    return is_float(from) ? b.CreateFCmpUNE(v, number(v, 0)) : b.CreateICmpNE(v, integer(v, 0));
  }
  if (Value* out = ir.hooks.convert(ir, from, to, v)) return out;
  if (from == DType::bool_) {
    Value* bits = b.CreateZExt(v, retyped(v, b.getInt32Ty()));
    if (is_float(to)) return int_to_float(ir, DType::i32, to, bits);
    return b.CreateZExtOrTrunc(bits, raw_type(ir, to, width_of(v)));
  }
  if (is_float(from)) return is_float(to) ? round_to(ir, to, v) : float_to_int(ir, to, v);
  if (is_float(to)) return int_to_float(ir, from, to, v);
  llvm::Type* type = raw_type(ir, to, width_of(v));
  return is_signed_int(from) ? b.CreateSExtOrTrunc(v, type) : b.CreateZExtOrTrunc(v, type);
}

}  // namespace fusec::codegen

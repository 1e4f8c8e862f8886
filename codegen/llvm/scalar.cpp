// SPDX-License-Identifier: Apache-2.0
// Builds every scalar op of the op table as LLVM IR for the host and NVPTX emitters. Integer ops must not trap or be
// undefined for any operand; float ops must match the reference in the op table.

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/llvm/values.h"
#include "ir/ops/op.h"
#include "ir/support/check.h"

namespace fusec::codegen {
namespace {

using llvm::Value;
using A = OpArgs;

namespace build {

// Integers.

Value* zero(const Value* like) { return llvm::Constant::getNullValue(like->getType()); }

// A divisor that never traps: 1 replaces 0, and also -1 if the dividend is the smallest integer (n / 1 is then the
// wrapped result).
Value* safe_divisor(Ir& ir, const A& x) {
  auto& b = ir.b;
  Value* bad = b.CreateICmpEQ(x.b, zero(x.b));
  if (is_signed_int(x.type)) {
    const unsigned bits = x.a->getType()->getScalarSizeInBits();
    Value* lowest = llvm::ConstantInt::get(x.a->getType(), llvm::APInt::getSignedMinValue(bits));
    Value* wraps = b.CreateAnd(b.CreateICmpEQ(x.a, lowest), b.CreateICmpEQ(x.b, integer(x.b, -1)));
    bad = b.CreateOr(bad, wraps);
  }
  return b.CreateSelect(bad, integer(x.b, 1), x.b);
}

Value* int_div(Ir& ir, const A& x) {
  Value* by = safe_divisor(ir, x);
  Value* q = is_signed_int(x.type) ? ir.b.CreateSDiv(x.a, by) : ir.b.CreateUDiv(x.a, by);
  return ir.b.CreateSelect(ir.b.CreateICmpEQ(x.b, zero(x.b)), zero(q), q);
}

// Has the sign of the dividend; x for a zero divisor.
Value* int_rem(Ir& ir, const A& x) {
  Value* by = safe_divisor(ir, x);
  Value* r = is_signed_int(x.type) ? ir.b.CreateSRem(x.a, by) : ir.b.CreateURem(x.a, by);
  return ir.b.CreateSelect(ir.b.CreateICmpEQ(x.b, zero(x.b)), x.a, r);
}

// Exponentiation by squaring, wrapping. A negative exponent gives 1 / a^|b|, truncated.
Value* int_pow(Ir& ir, const A& x) {
  auto& b = ir.b;
  Value *result_slot = stack_slot(ir, x.a->getType()), *base_slot = stack_slot(ir, x.a->getType());
  Value* exponent_slot = stack_slot(ir, x.a->getType());
  llvm::Type* type = x.a->getType();
  b.CreateStore(integer(x.a, 1), result_slot);
  b.CreateStore(x.a, base_slot);
  b.CreateStore(x.b, exponent_slot);
  const unsigned bits = type->getScalarSizeInBits();
  runtime_loop(ir, b.getInt64(bits), [&](Value*) {
    Value *base = b.CreateLoad(type, base_slot), *e = b.CreateLoad(type, exponent_slot);
    Value* result = b.CreateLoad(type, result_slot);
    Value* odd = b.CreateICmpNE(b.CreateAnd(e, integer(e, 1)), zero(e));
    b.CreateStore(b.CreateSelect(odd, b.CreateMul(result, base), result), result_slot);
    b.CreateStore(b.CreateMul(base, base), base_slot);
    b.CreateStore(b.CreateLShr(e, integer(e, 1)), exponent_slot);
  });
  Value* out = b.CreateLoad(type, result_slot);
  if (!is_signed_int(x.type)) return out;
  Value* odd = b.CreateICmpNE(b.CreateAnd(x.b, integer(x.b, 1)), zero(x.b));
  Value* minus = b.CreateSelect(odd, integer(x.a, -1), integer(x.a, 1));
  Value* inverse = b.CreateSelect(b.CreateICmpEQ(x.a, integer(x.a, 1)), integer(x.a, 1), zero(x.a));
  inverse = b.CreateSelect(b.CreateICmpEQ(x.a, integer(x.a, -1)), minus, inverse);
  return b.CreateSelect(b.CreateICmpSLT(x.b, zero(x.b)), inverse, out);
}

// Arithmetic.

Value* add(Ir& ir, const A& x) { return is_float(x.type) ? ir.b.CreateFAdd(x.a, x.b) : ir.b.CreateAdd(x.a, x.b); }
Value* sub(Ir& ir, const A& x) { return is_float(x.type) ? ir.b.CreateFSub(x.a, x.b) : ir.b.CreateSub(x.a, x.b); }
Value* mul(Ir& ir, const A& x) { return is_float(x.type) ? ir.b.CreateFMul(x.a, x.b) : ir.b.CreateMul(x.a, x.b); }
Value* fma(Ir& ir, const A& x) { return ir.hooks.fma(ir, x.a, x.b, x.c); }
// The values that depend only on the divisor.
struct Divisor {
  Value* inverse;
  Value* scale;  // 2^-46 where 2^-20 <= |y| < 2^60, else 0
};

Divisor make_divisor(Ir& ir, Value* y) {
  auto& b = ir.b;
  llvm::IRBuilder<>::InsertPointGuard guard(b);
  const auto* made = llvm::dyn_cast<llvm::Instruction>(y);
  if (made) b.SetInsertPoint(*const_cast<llvm::Instruction*>(made)->getInsertionPointAfterDef());
  Value* magnitude = call_intrinsic(ir, llvm::Intrinsic::fabs, {y});
  Value* fits =
      b.CreateAnd(b.CreateFCmpOGE(magnitude, number(y, 0x1p-20)), b.CreateFCmpOLT(magnitude, number(y, 0x1p60)));
  return {b.CreateFDiv(number(y, 1), y), b.CreateSelect(fits, number(y, 0x1p-46), number(y, 0))};
}

// x / splat(y), correctly rounded, by one multiplication with 1/y and one correction (Markstein 1990). For 2^-20 <= |y|
// < 2^60 and 2^-80 <= |q| the remainder x - q*y is a multiple of 2^-149, hence exact, and nothing overflows. Vectors
// with other lanes are divided. The scale makes 2^-80 the smallest normal number, so that one class test finds such
// lanes.
Value* div_by_scalar(Ir& ir, Value* x, Value* y) {
  auto& b = ir.b;
  const int width = width_of(x);
  const Divisor d = make_divisor(ir, y);
  Value *inverse = splat(ir, d.inverse, width), *divisor = splat(ir, y, width);
  Value* quotient = b.CreateFMul(x, inverse);
  Value* scaled = b.CreateFMul(quotient, splat(ir, d.scale, width));
  const auto corrected = [&] {
    Value* remainder = call_intrinsic(ir, llvm::Intrinsic::fma, {b.CreateFNeg(quotient), divisor, x});
    return call_intrinsic(ir, llvm::Intrinsic::fma, {remainder, inverse, quotient});
  };
  return usually(ir, b.CreateNot(any_of_class(ir, scaled, kZero | kDenormal | kInfinite | kNan)), corrected,
                 [&] { return b.CreateFDiv(x, divisor); });
}

Value* div(Ir& ir, const A& x) {
  if (!is_float(x.type)) return int_div(ir, x);
  Value* one = width_of(x.b) > 1 ? llvm::getSplatValue(x.b) : nullptr;
  const bool is_f32 = x.a->getType()->getScalarType()->isFloatTy();
  if (one && is_f32 && has_classes(ir, x.a)) return div_by_scalar(ir, x.a, one);
  return ir.b.CreateFDiv(x.a, x.b);
}
Value* fmod(Ir& ir, const A& x) { return is_float(x.type) ? ir.hooks.library(ir, "fmod", {x.a, x.b}) : int_rem(ir, x); }

// Adds the divisor to the remainder where their signs differ.
Value* mod(Ir& ir, const A& x) {
  auto& b = ir.b;
  Value* r = fmod(ir, x);
  if (is_unsigned_int(x.type)) return r;
  if (!is_float(x.type)) {
    Value* differs = b.CreateICmpSLT(b.CreateXor(r, x.b), zero(r));
    Value* moves = b.CreateAnd(differs, b.CreateAnd(b.CreateICmpNE(r, zero(r)), b.CreateICmpNE(x.b, zero(r))));
    return b.CreateSelect(moves, b.CreateAdd(r, x.b), r);
  }
  Value* differs = b.CreateXor(b.CreateFCmpOLT(r, zero(r)), b.CreateFCmpOLT(x.b, zero(r)));
  Value* moved = b.CreateSelect(differs, b.CreateFAdd(r, x.b), r);
  Value* signed_zero = call_intrinsic(ir, llvm::Intrinsic::copysign, {zero(r), x.b});
  return b.CreateSelect(b.CreateFCmpOEQ(r, zero(r)), signed_zero, moved);
}

Value* min(Ir& ir, const A& x) { return build_min(ir, x.type, x.a, x.b); }
Value* max(Ir& ir, const A& x) { return build_max(ir, x.type, x.a, x.b); }
Value* neg(Ir& ir, const A& x) { return is_float(x.type) ? ir.b.CreateFNeg(x.a) : ir.b.CreateNeg(x.a); }

Value* abs(Ir& ir, const A& x) {
  if (is_float(x.type)) return call_intrinsic(ir, llvm::Intrinsic::fabs, {x.a});
  if (!is_signed_int(x.type)) return x.a;
  return ir.b.CreateSelect(ir.b.CreateICmpSLT(x.a, zero(x.a)), ir.b.CreateNeg(x.a), x.a);
}

Value* sign(Ir& ir, const A& x) {
  auto& b = ir.b;
  if (is_float(x.type)) {
    Value* positive = b.CreateSelect(b.CreateFCmpOGT(x.a, zero(x.a)), number(x.a, 1), zero(x.a));
    Value* out = b.CreateSelect(b.CreateFCmpOLT(x.a, zero(x.a)), number(x.a, -1), positive);
    return b.CreateSelect(b.CreateFCmpUNO(x.a, x.a), x.a, out);
  }
  Value* nonzero = b.CreateZExt(b.CreateICmpNE(x.a, zero(x.a)), x.a->getType());
  if (!is_signed_int(x.type)) return nonzero;
  return b.CreateSelect(b.CreateICmpSLT(x.a, zero(x.a)), integer(x.a, -1), nonzero);
}

Value* pow(Ir& ir, const A& x) { return is_float(x.type) ? ir.hooks.library(ir, "pow", {x.a, x.b}) : int_pow(ir, x); }
Value* sqrt(Ir& ir, const A& x) { return call_intrinsic(ir, llvm::Intrinsic::sqrt, {x.a}); }
Value* floor(Ir& ir, const A& x) { return call_intrinsic(ir, llvm::Intrinsic::floor, {x.a}); }
Value* ceil(Ir& ir, const A& x) { return call_intrinsic(ir, llvm::Intrinsic::ceil, {x.a}); }
Value* trunc(Ir& ir, const A& x) { return call_intrinsic(ir, llvm::Intrinsic::trunc, {x.a}); }
Value* round(Ir& ir, const A& x) { return call_intrinsic(ir, llvm::Intrinsic::roundeven, {x.a}); }

// Near its zeros, b*a + c is dominated by rounding error unless it is rounded once.
Value* hard_sigmoid(Ir& ir, const A& x) {
  const bool wide = x.a->getType()->getScalarType()->isDoubleTy();
  Value* line = wide ? ir.b.CreateFAdd(ir.b.CreateFMul(x.b, x.a), x.c) : ir.hooks.fma(ir, x.b, x.a, x.c);
  return build_max(ir, x.type, zero(x.a), build_min(ir, x.type, number(x.a, 1), line));
}
// Comparison, logic, bits, selection.

using Predicate = llvm::CmpInst::Predicate;
Value* compare(Ir& ir, const A& x, Predicate f, Predicate s, Predicate u) {
  if (is_float(x.type)) return ir.b.CreateFCmp(f, x.a, x.b);
  return ir.b.CreateICmp(is_signed_int(x.type) ? s : u, x.a, x.b);
}
Value* eq(Ir& ir, const A& x) { return compare(ir, x, Predicate::FCMP_OEQ, Predicate::ICMP_EQ, Predicate::ICMP_EQ); }
Value* ne(Ir& ir, const A& x) { return compare(ir, x, Predicate::FCMP_UNE, Predicate::ICMP_NE, Predicate::ICMP_NE); }
Value* lt(Ir& ir, const A& x) { return compare(ir, x, Predicate::FCMP_OLT, Predicate::ICMP_SLT, Predicate::ICMP_ULT); }
Value* le(Ir& ir, const A& x) { return compare(ir, x, Predicate::FCMP_OLE, Predicate::ICMP_SLE, Predicate::ICMP_ULE); }
Value* gt(Ir& ir, const A& x) { return compare(ir, x, Predicate::FCMP_OGT, Predicate::ICMP_SGT, Predicate::ICMP_UGT); }
Value* ge(Ir& ir, const A& x) { return compare(ir, x, Predicate::FCMP_OGE, Predicate::ICMP_SGE, Predicate::ICMP_UGE); }
Value* is_nan(Ir& ir, const A& x) { return ir.b.CreateFCmpUNO(x.a, x.a); }
Value* bit_and(Ir& ir, const A& x) { return ir.b.CreateAnd(x.a, x.b); }
Value* bit_or(Ir& ir, const A& x) { return ir.b.CreateOr(x.a, x.b); }
Value* bit_xor(Ir& ir, const A& x) { return ir.b.CreateXor(x.a, x.b); }
Value* bit_not(Ir& ir, const A& x) { return ir.b.CreateNot(x.a); }
Value* bool_not(Ir& ir, const A& x) { return ir.b.CreateNot(x.a); }

// Counts are unsigned; for counts past the width the result is 0.
Value* shl(Ir& ir, const A& x) {
  auto& b = ir.b;
  const unsigned bits = x.a->getType()->getScalarSizeInBits();
  Value* count = b.CreateAnd(x.b, integer(x.b, bits - 1));
  return b.CreateSelect(b.CreateICmpULT(x.b, integer(x.b, bits)), b.CreateShl(x.a, count), zero(x.a));
}
Value* shr(Ir& ir, const A& x) {
  auto& b = ir.b;
  const unsigned bits = x.a->getType()->getScalarSizeInBits();
  Value* fits = b.CreateICmpULT(x.b, integer(x.b, bits));
  Value* count = b.CreateAnd(x.b, integer(x.b, bits - 1));
  Value* shifted = is_signed_int(x.type) ? b.CreateAShr(x.a, count) : b.CreateLShr(x.a, count);
  return b.CreateSelect(fits, shifted, zero(x.a));
}

Value* where(Ir& ir, const A& x) { return ir.b.CreateSelect(x.a, x.b, x.c); }
Value* cast(Ir&, const A&) {
  FUSEC_CHECK(false) << "cast is build_raw's";
  return nullptr;
}

}  // namespace build

// The number that all lanes of a constant share; null if there is none.
const llvm::ConstantFP* constant_number(const Value* v) {
  const auto* c = llvm::dyn_cast<llvm::Constant>(v);
  if (c && c->getType()->isVectorTy()) c = c->getSplatValue();
  return llvm::dyn_cast_or_null<llvm::ConstantFP>(c);
}

// x86's maxps returns its second operand for equal operands and for NaN. With the constant first, a NaN in the other
// operand wins. Only +0 in a max (-0 in a min) against a zero of the other sign needs more.
Value* extreme_with(Ir& ir, bool is_max, const llvm::ConstantFP* c, Value* constant, Value* x) {
  auto& b = ir.b;
  Value* taken = is_max ? b.CreateFCmpOGT(constant, x) : b.CreateFCmpOLT(constant, x);
  Value* out = b.CreateSelect(taken, constant, x);
  if (is_max && c->isZero() && !c->isNegative()) return b.CreateFAdd(out, constant);  // -0 + 0 = +0
  return out;
}

// AVX-512's vrangeps orders zeros by their signs. Of a NaN and a number it returns the number.
Value* extreme_by_range(Ir& ir, bool is_max, Value* x, Value* y) {
  auto& b = ir.b;
  constexpr int kMin = 0, kMax = 1, kSignOfResult = 4;
  Value* how = b.getInt32(kSignOfResult | (is_max ? kMax : kMin));
  std::vector<Value*> parts;
  for (int from = 0; from < width_of(x); from += 16) {
    Value *p = lanes_from(ir, x, from, 16), *q = lanes_from(ir, y, from, 16);
    parts.push_back(
        b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_range_ps_512, {},
                          {p, q, how, llvm::PoisonValue::get(p->getType()), b.getInt16(0xffff), b.getInt32(4)}));
  }
  return llvm::concatenateVectors(b, parts);
}

// Both operand orders agree except for NaN and for zeros of unlike sign, which an and/or of the bits decides.
Value* min_max(Ir& ir, bool is_max, Value* x, Value* y) {
  auto& b = ir.b;
  for (int side = 0; side < 2; ++side, std::swap(x, y)) {
    const llvm::ConstantFP* c = constant_number(x);
    if (c && !c->isNaN() && (is_max || !(c->isZero() && c->isNegative()))) return extreme_with(ir, is_max, c, x, y);
  }
  if (x->getType()->getScalarType()->isFloatTy() && has_classes(ir, x)) {
    return b.CreateSelect(b.CreateFCmpUNO(x, y), b.CreateFAdd(x, y), extreme_by_range(ir, is_max, x, y));
  }
  const auto pick = [&](Value* p, Value* q) {
    return as_bits(ir, b.CreateSelect(is_max ? b.CreateFCmpOGT(p, q) : b.CreateFCmpOLT(p, q), p, q));
  };
  Value *one = pick(x, y), *other = pick(y, x);
  Value* bits = is_max ? b.CreateAnd(one, other) : b.CreateOr(one, other);
  return b.CreateSelect(b.CreateFCmpUNO(x, y), b.CreateFAdd(x, y), b.CreateBitCast(bits, x->getType()));
}

}  // namespace

namespace host {

Value* min_max(Ir& ir, bool is_max, Value* x, Value* y) { return codegen::min_max(ir, is_max, x, y); }

}  // namespace host

Value* build_max(Ir& ir, DType type, Value* a, Value* b) {
  if (is_float(type)) return ir.hooks.min_max(ir, true, a, b);
  return call_intrinsic(ir, is_signed_int(type) ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, {a, b});
}

Value* build_min(Ir& ir, DType type, Value* a, Value* b) {
  if (is_float(type)) return ir.hooks.min_max(ir, false, a, b);
  return call_intrinsic(ir, is_signed_int(type) ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, {a, b});
}

// Compared as integers, non-negative values are in order. Above the bits of -infinity lie the NaNs with a sign, which
// max keeps.
Value* build_on_bits(Ir& ir, ir::ScalarOp op, DType type, Value* raw) {
  auto& b = ir.b;
  if (op == ir::ScalarOp::abs) return b.CreateAnd(raw, integer(raw, 0x7fff));
  if (op == ir::ScalarOp::neg) return b.CreateXor(raw, integer(raw, 0x8000));
  Value* larger = call_intrinsic(ir, llvm::Intrinsic::smax, {raw, integer(raw, 0)});
  return b.CreateSelect(b.CreateICmpUGT(raw, integer(raw, type == DType::f16 ? 0xfc00 : 0xff80)), raw, larger);
}

namespace {

// A value in the tree of a definition, with its dtype (compute form, or bool).
struct Typed {
  Value* value;
  DType type;
};

llvm::Constant* number_node(Ir& ir, const ir::DefNode& node, const OpArgs& args) {
  const auto whole = static_cast<int64_t>(node.number);
  if (node.is_bits) {
    llvm::Type* bits = args.type == DType::f64 ? ir.b.getInt64Ty() : ir.b.getInt32Ty();
    return llvm::ConstantInt::get(retyped(args.a, bits), static_cast<uint64_t>(whole), true);
  }
  return is_float(args.type) ? number(args.a, node.number) : integer(args.a, whole);
}

Typed build_node(Ir& ir, const ir::DefNode& node, const OpArgs& args, std::span<const Typed> steps) {
  if (node.kind == ir::DefNode::Kind::number) {
    const DType bits = args.type == DType::f64 ? DType::i64 : DType::i32;
    return {number_node(ir, node, args), node.is_bits ? bits : args.type};
  }
  if (node.kind == ir::DefNode::Kind::step) return steps[static_cast<std::size_t>(node.operand)];
  if (node.kind == ir::DefNode::Kind::operand) {
    Value* operands[] = {args.a, args.b, args.c};
    return {operands[node.operand], args.type};
  }
  FUSEC_CHECK(node.kind == ir::DefNode::Kind::op) << "a gradient's symbol in a definition";
  Value* in[3] = {};
  DType type = args.type;
  for (std::size_t i = 0; i < node.args.size(); ++i) {
    const Typed arg = build_node(ir, node.args[i], args, steps);
    in[i] = arg.value;
    type = arg.type;  // the last operand's type: for where it is the type of a choice
  }
  return {build_op(ir, node.op, {type, in[0], in[1], in[2]}), result_type(node.op, type, type)};
}

}  // namespace

// Builds the trees in the compute type, without rounding to f16 or bf16 inside.
Value* build_steps(Ir& ir, std::span<const ir::DefNode> steps, OpArgs args) {
  args.type = compute_type(args.type);
  std::vector<Typed> made;
  for (const ir::DefNode& step : steps) made.push_back(build_node(ir, step, args, made));
  return made.back().value;
}

Value* build_op(Ir& ir, ir::ScalarOp op, const OpArgs& args) {
  switch (op) {
#define SCALAR_OP(name, arity, typing, reference, cuda, llvm_name, ...) \
  case ir::ScalarOp::name:                                              \
    return build::llvm_name(ir, args);
#define SCALAR_FN(name, ...) \
  case ir::ScalarOp::name:   \
    return ir.hooks.function(ir, op, args.a);
#define SCALAR_DEF(name, ...) \
  case ir::ScalarOp::name:    \
    return build_steps(ir, {&ir::definition(op), 1}, args);
#include "ir/ops/scalar_ops.def"
    default:
      break;
  }
  return ir.hooks.kernel_op(ir, op, args);
}

Value* build_raw(Ir& ir, ir::ScalarOp op, const OpArgs& args, DType result) {
  if (op == ir::ScalarOp::cast) return convert(ir, args.type, result, args.a);
  if (op == ir::ScalarOp::round_cast) {
    Value* fused = ir.hooks.round_cast == nullptr ? nullptr : ir.hooks.round_cast(ir, args.type, result, args.a);
    return fused != nullptr ? fused : convert(ir, args.type, result, build_op(ir, ir::ScalarOp::round, args));
  }
  return narrow(ir, result, build_op(ir, op, args));
}

}  // namespace fusec::codegen

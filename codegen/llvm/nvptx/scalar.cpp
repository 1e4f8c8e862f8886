// SPDX-License-Identifier: Apache-2.0
// The `TargetHooks` table of NVPTX: conversions, min/max, kernel ops and functions. Functions are formulas of
// ir/ops/gpu_formulas.def, or in functions.cpp: no library of CUDA is called.

#include <fmt/format.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include "codegen/llvm/nvptx/functions.h"
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

Value* lane_of(Ir& ir, Value* v, int lane) {
  return width_of(v) == 1 ? v : ir.b.CreateExtractElement(v, static_cast<uint64_t>(lane));
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

// f32 lanes to bytes, four at a time, saturated; NaN becomes 0. ptxas makes one instruction of two conversions and
// their packing. Null for other types, for lanes that are no multiple of four, and before sm_80. `rounding`: "rni" or
// "rzi".
Value* packed_bytes(Ir& ir, DType to, Value* f, const char* rounding) {
  auto& b = ir.b;
  const int lanes = width_of(f);
  if ((to != DType::i8 && to != DType::u8) || is_f64(f) || lanes % 4 != 0 || ir.target.sm < 80) return nullptr;
  Value* whole = by_instruction(ir, fmt::format("cvt.{}.s32.f32", rounding), f, b.getInt32Ty());
  llvm::Type* word = b.getInt32Ty();
  auto* pack =
      llvm::InlineAsm::get(llvm::FunctionType::get(word, {word, word, word}, false),
                           fmt::format("cvt.pack.sat.{}.s32.b32 $0, $1, $2, $3;", to == DType::i8 ? "s8" : "u8"),
                           "=r,r,r,r", /*hasSideEffects=*/false);
  auto* four = llvm::FixedVectorType::get(b.getInt8Ty(), 4);
  Value* out = llvm::PoisonValue::get(raw_type(ir, to, lanes));
  for (int i = 0; i < lanes; i += 4) {
    const auto lane = [&](int j) { return lane_of(ir, whole, i + j); };
    Value* high = b.CreateCall(pack, {lane(3), lane(2), b.getInt32(0)});
    Value* bytes = b.CreateBitCast(b.CreateCall(pack, {lane(1), lane(0), high}), four);
    for (int j = 0; j < 4; ++j)
      out = b.CreateInsertElement(out, b.CreateExtractElement(bytes, uint64_t(j)), uint64_t(i + j));
  }
  return out;
}

Value* gpu_round_cast(Ir& ir, DType, DType to, Value* f) { return packed_bytes(ir, to, f, "rni"); }

Value* integer_from_float(Ir& ir, DType to, Value* f) {
  auto& b = ir.b;
  if (Value* bytes = packed_bytes(ir, to, f, "rzi")) return bytes;
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
    return b.CreateIntrinsic(id, {}, {lane, lane_of(ir, y, k)});
  });
  return b.CreateSelect(b.CreateFCmpUNO(x, y), b.CreateFAdd(x, y), number);
}

// A formula, for operands of one type.
Value* by_formula(Ir& ir, ir::ScalarOp op, const std::vector<Value*>& args) {
  const DType type = is_f64(args[0]) ? DType::f64 : DType::f32;
  const ir::Formula* formula = ir::gpu_formula(op, type);
  FUSEC_CHECK(formula != nullptr) << ir::info(op).name << " has no formula for GPUs";
  return build_steps(ir, *formula, {type, args[0], args.size() > 1 ? args[1] : nullptr});
}

Value* gpu_function(Ir& ir, ir::ScalarOp op, Value* x) {
  using ir::ScalarOp;
  auto* own = op == ScalarOp::sin ? sin : op == ScalarOp::cos ? cos : op == ScalarOp::tan ? tan : nullptr;
  if (own == nullptr) return by_formula(ir, op, {x});
  return by_lane(ir, x, x->getType()->getScalarType(), [&](Value* lane, int) { return own(ir, lane); });
}

// What is a call of libm on a CPU.
Value* gpu_library(Ir& ir, const std::string& name, const std::vector<Value*>& args) {
  if (name == "pow") return by_formula(ir, ir::ScalarOp::pow, args);
  FUSEC_CHECK(name == "fmod") << name << " is no function of GPUs";
  return by_lane(ir, args[0], args[0]->getType()->getScalarType(),
                 [&](Value* lane, int k) { return fmod(ir, lane, lane_of(ir, args[1], k)); });
}

Value* gpu_fma(Ir& ir, Value* a, Value* b, Value* c) { return call_intrinsic(ir, intrinsic::fma, {a, b, c}); }

// The functions of the `nvptx` column of ir/ops/kernel_ops.def.
namespace build {

using A = OpArgs;

Value* fma_down(Ir& ir, const A& x) {
  return by_lane(ir, x.a, ir.b.getFloatTy(), [&](Value* a, int k) -> Value* {
    return ir.b.CreateIntrinsic(intrinsic::nvvm_fma_rm_f, {}, {a, lane_of(ir, x.b, k), lane_of(ir, x.c, k)});
  });
}
Value* saturate(Ir& ir, const A& x) { return by_intrinsic(ir, intrinsic::nvvm_saturate_f, x.a, ir.b.getFloatTy()); }
Value* copysign(Ir& ir, const A& x) { return call_intrinsic(ir, intrinsic::copysign, {x.a, x.b}); }
Value* exp2_approx(Ir& ir, const A& x) {
  return by_intrinsic(ir, intrinsic::nvvm_ex2_approx_ftz_f, x.a, ir.b.getFloatTy());
}
Value* rcp_approx(Ir& ir, const A& x) {
  return by_intrinsic(ir, intrinsic::nvvm_rcp_approx_ftz_f, x.a, ir.b.getFloatTy());
}
Value* to_bits(Ir& ir, const A& x) { return as_bits(ir, x.a); }
Value* from_bits(Ir& ir, const A& x) {
  const bool is_wide = x.a->getType()->getScalarType()->isIntegerTy(64);
  return is_wide ? ir.b.CreateBitCast(x.a, retyped(x.a, ir.b.getDoubleTy())) : as_float(ir, x.a);
}
Value* erfc(Ir& ir, const A& x) { return by_formula(ir, ir::ScalarOp::erfc, {x.a}); }
Value* gelu_as_f16(Ir& ir, const A& x) { return by_formula(ir, ir::ScalarOp::gelu_as_f16, {x.a}); }
Value* gelu_as_bf16(Ir& ir, const A& x) { return by_formula(ir, ir::ScalarOp::gelu_as_bf16, {x.a}); }
Value* sigmoid_as_16_bits(Ir& ir, const A& x) { return by_formula(ir, ir::ScalarOp::sigmoid_as_16_bits, {x.a}); }
Value* round_cast(Ir&, const A&) {
  FUSEC_CHECK(false) << "round_cast is build_raw's";
  return nullptr;
}

}  // namespace build

Value* gpu_kernel_op(Ir& ir, ir::ScalarOp op, const OpArgs& args) {
  switch (op) {
#define KERNEL_OP(name, arity, typing, reference, cuda, nvptx, ...) \
  case ir::ScalarOp::name:                                          \
    return build::nvptx(ir, args);
#include "ir/ops/kernel_ops.def"
    default:
      break;
  }
  FUSEC_CHECK(false) << ir::info(op).name << " is no kernel op";
  return nullptr;
}

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
                                         .library = nvptx::gpu_library,
                                         .function = nvptx::gpu_function,
                                         .round_cast = nvptx::gpu_round_cast,
                                         .kernel_op = nvptx::gpu_kernel_op};
  return kNvptx;
}

}  // namespace fusec::codegen

// SPDX-License-Identifier: Apache-2.0
#include "codegen/llvm/division.h"

#include "ir/kernel/known_bits.h"

namespace fusec::codegen {
namespace {

using llvm::Value;

// 1/y as the sum of two parts of the same sign, so that zeros keep theirs. The second part is not 0, so that infinity
// stays infinity. That holds where `fits` does.
struct Reciprocal {
  Value *first, *rest;
  Value* fits;
};

Reciprocal make_reciprocal(Ir& ir, Value* y) {
  auto& b = ir.b;
  llvm::IRBuilder<>::InsertPointGuard guard(b);
  if (auto* made = llvm::dyn_cast<llvm::Instruction>(y)) {
    // There is no such point where the definition ends a block that is not written to its end.
    if (const auto behind = made->getInsertionPointAfterDef()) {
      b.SetInsertPoint(*behind);
    } else {
      b.SetInsertPoint(made->getParent());
    }
  }
  Value *one = number(y, 1), *none = number(y, 0), *minus = b.CreateFNeg(y);
  const auto rest_of = [&](Value* r) { return call_intrinsic(ir, llvm::Intrinsic::fma, {minus, r, one}); };
  Value* near = b.CreateFDiv(one, y);
  Value* bits = as_bits(ir, near);
  Value* less = b.CreateBitCast(b.CreateSub(bits, integer(bits, 1)), y->getType());
  Value* first = b.CreateSelect(b.CreateFCmpOLT(rest_of(near), none), less, near);
  Value* rest = rest_of(first);
  Value* part = b.CreateSelect(b.CreateFCmpOGT(rest, none), rest, number(y, 0x1p-100));
  Value* size = call_intrinsic(ir, llvm::Intrinsic::fabs, {y});
  Value* fits = b.CreateAnd(b.CreateFCmpOGE(size, number(y, 0x1p-24)), b.CreateFCmpOLE(size, number(y, 0x1p16)));
  return {first, b.CreateFMul(first, part), fits};
}

}  // namespace

std::set<ir::RegId> find_divisions_by_parts(const ir::Kernel& kernel) {
  std::set<ir::RegId> quotients;
  const ir::IdVector<ir::RegId, ir::KnownBits> known = ir::compute_known_bits(kernel);
  ir::for_each_stmt(kernel.body, [&](const ir::Stmt& stmt) {
    const auto* let = std::get_if<ir::Let>(&stmt.v);
    if (let == nullptr || let->op != ir::ScalarOp::div) return;
    const ir::RegInfo& result = kernel.regs[let->dst];
    const auto *x = std::get_if<ir::RegId>(&let->args[0]), *y = std::get_if<ir::RegId>(&let->args[1]);
    if (result.dtype != DType::f32 || result.width == 1 || x == nullptr || y == nullptr) return;
    if (kernel.regs[*x].width == 1 || kernel.regs[*y].width != 1) return;
    if (known[*y].count <= 11 && known[*x].least >= -90) quotients.insert(let->dst);
  });
  return quotients;
}

Value* div_by_parts(Ir& ir, Value* x, Value* y) {
  const Reciprocal r = make_reciprocal(ir, y);
  const int width = width_of(x);
  return usually(
      ir, r.fits,
      [&] {
        Value* rest = ir.b.CreateFMul(x, splat(ir, r.rest, width));
        return call_intrinsic(ir, llvm::Intrinsic::fma, {x, splat(ir, r.first, width), rest});
      },
      [&] { return ir.b.CreateFDiv(x, splat(ir, y, width)); });
}

}  // namespace fusec::codegen

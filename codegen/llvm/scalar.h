// SPDX-License-Identifier: Apache-2.0
// Scalar ops: the `llvm` column of ir/ops/scalar_ops.def as functions. No fast-math flag is ever set, and nothing is
// contracted across ops. math.h has the transcendental functions.
#pragma once

#include <span>

#include "codegen/llvm/values.h"
#include "ir/ops/op.h"

namespace fusec::codegen {

// Operands in compute form, all of one width. `type` is the dtype of the operands (for where: of the choices).
struct OpArgs {
  DType type;
  llvm::Value *a, *b = nullptr, *c = nullptr;
};

// The result in compute form. Not for cast. Definitions are expanded.
llvm::Value* build_op(Ir& ir, ir::ScalarOp op, const OpArgs& args);
// The result as a register, rounded to `result`; a cast converts from args.type.
llvm::Value* build_raw(Ir& ir, ir::ScalarOp op, const OpArgs& args, DType result);

// max(x, 0), abs or neg of an f16 or bf16 on its bits, where ir::on_half_bits holds.
llvm::Value* build_on_bits(Ir& ir, ir::ScalarOp op, DType type, llvm::Value* raw);

// Floats: NaN wins, -0 < +0. Integers: smin and the like.
llvm::Value* build_max(Ir& ir, DType type, llvm::Value* a, llvm::Value* b);
llvm::Value* build_min(Ir& ir, DType type, llvm::Value* a, llvm::Value* b);

}  // namespace fusec::codegen

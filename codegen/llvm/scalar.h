// SPDX-License-Identifier: Apache-2.0
// Scalar ops: the `llvm` column of ir/ops/scalar_ops.def as functions. No fast-math flag is ever set, and nothing is
// contracted across ops; math.h has the transcendental ones.
#pragma once

#include <span>

#include "codegen/llvm/values.h"
#include "ir/ops/op.h"

namespace fusec::codegen {

// Operands in compute form, all of one width; `type` is the dtype of operands (for where: of the choices).
struct OpArgs {
  DType type;
  llvm::Value *a, *b = nullptr, *c = nullptr;
};

// The result in its compute form; not for cast. Definitions are expanded.
llvm::Value* build_op(Ir& ir, ir::ScalarOp op, const OpArgs& args);
// As a register: rounded to `result`; casts from args.type.
llvm::Value* build_raw(Ir& ir, ir::ScalarOp op, const OpArgs& args, DType result);

// max(x, 0), abs or neg of f16 or bf16 on its bits, where ir::on_half_bits.
llvm::Value* build_on_bits(Ir& ir, ir::ScalarOp op, DType type, llvm::Value* raw);

// NaN wins, -0 < +0; smin and the like for integers.
llvm::Value* build_max(Ir& ir, DType type, llvm::Value* a, llvm::Value* b);
llvm::Value* build_min(Ir& ir, DType type, llvm::Value* a, llvm::Value* b);

}  // namespace fusec::codegen

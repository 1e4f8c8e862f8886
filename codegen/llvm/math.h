// SPDX-License-Identifier: Apache-2.0
// Transcendental functions of the host, on compute-form floats (f32 or f64) of any width.
#pragma once

#include <string>
#include <vector>

#include "codegen/llvm/values.h"

namespace fusec::codegen::math {

// The `host` column of ir/ops/scalar_ops.def: a polynomial for f32 where there is one, else a call of libm.
llvm::Value* function(Ir& ir, ir::ScalarOp op, llvm::Value* x);
// Calls the libm function `name` (without the suffix f for f32) lane by lane, through HostArgs::externs.
llvm::Value* libm(Ir& ir, const std::string& name, const std::vector<llvm::Value*>& args);
// a*b + c, rounded once.
llvm::Value* fused(Ir& ir, llvm::Value* a, llvm::Value* b, llvm::Value* c);

}  // namespace fusec::codegen::math

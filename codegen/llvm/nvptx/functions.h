// SPDX-License-Identifier: Apache-2.0
// The functions of GPUs that need branches or loops, which formulas lack. Operands are one lane of f32 or f64.
#pragma once

#include "codegen/llvm/values.h"

namespace fusec::codegen::nvptx {

llvm::Value* sin(Ir& ir, llvm::Value* x);
llvm::Value* cos(Ir& ir, llvm::Value* x);
llvm::Value* tan(Ir& ir, llvm::Value* x);
// The remainder of x / y with the sign of x, exact.
llvm::Value* fmod(Ir& ir, llvm::Value* x, llvm::Value* y);

}  // namespace fusec::codegen::nvptx

// SPDX-License-Identifier: Apache-2.0
// Transcendental functions of compute-form floats (f32 or f64) of any width.
#pragma once

#include "codegen/llvm/values.h"

namespace fusec::codegen::math {

using llvm::Value;

Value* exp(Ir& ir, Value* x);
Value* expm1(Ir& ir, Value* x);
Value* log(Ir& ir, Value* x);
Value* log1p(Ir& ir, Value* x);
Value* tanh(Ir& ir, Value* x);
Value* erf(Ir& ir, Value* x);
Value* sin(Ir& ir, Value* x);
Value* cos(Ir& ir, Value* x);

// `name` of libm ("tanf" for f32, "tan" for f64), lane by lane, through HostArgs::externs.
Value* libm(Ir& ir, const std::string& name, std::initializer_list<Value*> args);

}  // namespace fusec::codegen::math

// SPDX-License-Identifier: Apache-2.0
// Transcendental functions of the host, of compute-form floats (f32 or f64) of any width.
#pragma once

#include <string>
#include <vector>

#include "codegen/llvm/values.h"

namespace fusec::codegen::math {

// `name` of libm, without the f of f32 functions: a polynomial for f32 where there is one, else libm lane by lane,
// through HostArgs::externs.
llvm::Value* function(Ir& ir, const std::string& name, const std::vector<llvm::Value*>& args);

}  // namespace fusec::codegen::math

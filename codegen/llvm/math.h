// SPDX-License-Identifier: Apache-2.0
// Transcendental functions of the host, on compute-form floats (f32 or f64) of any width.
#pragma once

#include <string>
#include <vector>

#include "codegen/llvm/values.h"

namespace fusec::codegen::math {

// The libm function `name`, without the suffix f for f32. Uses a polynomial for f32 where there is one, else calls libm
// lane by lane through HostArgs::externs.
llvm::Value* function(Ir& ir, const std::string& name, const std::vector<llvm::Value*>& args);

}  // namespace fusec::codegen::math

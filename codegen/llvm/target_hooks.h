// SPDX-License-Identifier: Apache-2.0
// The `TargetHooks` tables of the host and of NVPTX.
#pragma once

#include "codegen/llvm/values.h"

namespace fusec::codegen {

const TargetHooks& host_hooks();
const TargetHooks& nvptx_hooks();

// Parts of the host's table that other tables use.
namespace host {

llvm::Value* f32_from_f16(Ir& ir, llvm::Value* raw);
llvm::Value* f16_from_f32(Ir& ir, llvm::Value* f);
llvm::Value* bf16_from_f32(Ir& ir, llvm::Value* f);
llvm::Value* min_max(Ir& ir, bool is_max, llvm::Value* x, llvm::Value* y);

}  // namespace host
}  // namespace fusec::codegen

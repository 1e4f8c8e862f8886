// SPDX-License-Identifier: Apache-2.0
// Where the elements of a kernel's buffers lie in memory.
#pragma once

#include "ir/kernel/kernel.h"

namespace fusec::codegen {

using ir::IndexExpr;

// Strides in elements: the stated ones, or else row-major over the shape; with layout "pitch P" rows are P elements
// apart.
ir::IndexShape compute_strides(const ir::Buffer& buffer);
IndexExpr linear_index(const ir::Buffer& buffer, const std::vector<IndexExpr>& index);

}  // namespace fusec::codegen

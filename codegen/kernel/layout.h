// SPDX-License-Identifier: Apache-2.0
// Where the elements of a kernel's buffers lie.
#pragma once

#include "ir/kernel/kernel.h"

namespace fusec::codegen {

// Strides in elements: as stated, or row-major over the shape, rows of "pitch P" P elements apart.
Shape strides_of(const ir::Buffer& buffer);
Dim linear_index(const ir::Buffer& buffer, const std::vector<Dim>& index);

}  // namespace fusec::codegen

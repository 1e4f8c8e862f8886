// SPDX-License-Identifier: Apache-2.0
// Converts operands to oneDNN memory descriptors.
#pragma once

#include <dnnl.hpp>
#include <optional>

#include "runtime/library/interface/problem.h"

namespace fusec::runtime::onednn {

using dnnl::memory;

// nullopt: a type in which oneDNN does not compute on this CPU. Supported are f32, and f16 and bf16 where the CPU
// multiplies them.
std::optional<memory::data_type> data_type(DType dtype);

memory::desc describe(const Extents& dims, const Extents& strides, DType dtype);

// The memory order of the axes N C spatial... of an image; nullopt if either order fits (no or one spatial position, or
// one channel).
std::optional<ImageOrder> infer_order(const CallOperand& image);

// The same elements, with the strides of axes of extent 1 set to what oneDNN's format checks expect, as canonical_image
// does for images. With other strides oneDNN would miss its fast implementations.
CallOperand canonical_matrix(CallOperand matrix);

}  // namespace fusec::runtime::onednn

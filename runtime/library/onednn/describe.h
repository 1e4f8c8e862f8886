// SPDX-License-Identifier: Apache-2.0
// Our operands in oneDNN's words.
#pragma once

#include <dnnl.hpp>
#include <optional>

#include "runtime/library/interface/problem.h"

namespace fusec::runtime::onednn {

using dnnl::memory;

// nullopt: a type that oneDNN does not compute with here (f32, and f16 and bf16 where this CPU multiplies them).
std::optional<memory::data_type> data_type(DType dtype);

memory::desc describe(const Extents& dims, const Extents& strides, DType dtype);

enum class ImageOrder { first, last };
// How the axes N C spatial... of an image lie in memory; nullopt where either fits (no or one spatial position, or one
// channel).
std::optional<ImageOrder> order_of(const Operand& image);

// The same elements with strides at axes of extent 1 as oneDNN's format checks expect them, which otherwise miss the
// fast implementations.
Operand canonical_image(Operand image, ImageOrder order);
Operand canonical_matrix(Operand matrix);

// Row-major in memory order N spatial... C or N C spatial....
Operand dense_image(Operand image, ImageOrder order);

}  // namespace fusec::runtime::onednn

// SPDX-License-Identifier: Apache-2.0
// Calls that another graph would make in place of one of this program: with images in another order, or in f16. They
// are timed alone, to tell what a layout or a type costs; no plan runs them.
#pragma once

#include <optional>

#include "runtime/library/interface/library.h"

namespace fusec::runtime {

// The convolution with dense images and a dense filter in the order N C spatial...; nullopt: it is none, or its images
// lie so already. Operands that are broadcast stay as they are.
std::optional<LibraryCall> with_channels_first(const LibraryCall& call);

// The call with f16 in place of f32, accumulated in f32 as before; nullopt: its result is not f32. Constants keep the
// addresses of the f32 ones, so their values mean nothing.
std::optional<LibraryCall> in_half(const LibraryCall& call);

}  // namespace fusec::runtime

// SPDX-License-Identifier: Apache-2.0
// The library of plain loops. It takes every step, type and stride; it is the last fallback and the reference that
// other libraries are tested against.
#pragma once

#include <memory>

#include "runtime/library/interface/library.h"

namespace fusec::runtime {

std::shared_ptr<Library> make_plain_library();

}  // namespace fusec::runtime

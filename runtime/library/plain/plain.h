// SPDX-License-Identifier: Apache-2.0
// The library of plain loops: every step, type and stride; the last resort, and what others are checked against.
#pragma once

#include <memory>

#include "runtime/library/interface/library.h"

namespace fusec::runtime {

std::shared_ptr<Library> make_plain_library();

}  // namespace fusec::runtime

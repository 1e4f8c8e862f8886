// SPDX-License-Identifier: Apache-2.0
// Words for the values that extents may have (ir::Limits).
#pragma once

#include <string>

#include "fusec/shape.h"

namespace fusec::ir {

std::string range_text(const ExtentRange& range);  // "at most 512", "at least 2", "2 to 512"

}  // namespace fusec::ir

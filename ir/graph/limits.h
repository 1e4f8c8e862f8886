// SPDX-License-Identifier: Apache-2.0
// Words for the values that extents may have (ir::Limits).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "fusec/shape.h"

namespace fusec::ir {

std::string range_text(const ExtentRange& range);  // "at most 512", "at least 2", "2 to 512"
// "8", at least 0; "1:64", ":64" or "2:", no empty range. nullopt: it is none.
std::optional<int64_t> parse_extent(std::string_view text);
std::optional<ExtentRange> parse_range(std::string_view text);

}  // namespace fusec::ir

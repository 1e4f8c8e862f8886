// SPDX-License-Identifier: Apache-2.0
// Classes of ASCII characters. Those of the C library depend on the locale.
#pragma once

namespace fusec::ir {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool starts_name(char c) { return is_letter(c) || c == '_'; }

}  // namespace fusec::ir

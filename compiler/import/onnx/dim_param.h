// SPDX-License-Identifier: Apache-2.0
// The expressions that exporters write in place of a dim_param's name: "past + seq", "2*N", "floor(height/2 - 1/2) +
// 1",
// "(s0 - 1)//4 + 1".
#pragma once

#include <optional>
#include <string>

#include "fusec/dim.h"

namespace fusec::importer {

// The text as a Dim over the names in it: + - * / // %, parentheses, integers, floor, ceil or ceiling, and floordiv,
// mod, min and max in lower case or as sympy writes them. nullopt: it is only a name, a number, or no expression.
std::optional<Dim> parse_dim_param(const std::string& text);

}  // namespace fusec::importer

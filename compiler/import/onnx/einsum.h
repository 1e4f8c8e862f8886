// SPDX-License-Identifier: Apache-2.0
// The equation of an Einsum.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fusec::importer {

// Axes by label: a letter's code, or for an axis of the ellipsis 256 + its distance from the ellipsis' last axis, so
// that ellipses of several lengths meet at their ends.
using Labels = std::vector<int>;

struct Equation {
  std::vector<Labels> operands;
  Labels result;  // each once, and each in some operand
};

// Throws ImportError for an equation that breaks the rules or does not fit operands of these ranks.
Equation parse_equation(const std::string& text, const std::vector<int64_t>& ranks);

std::string label_name(int label);  // for errors: "'i'" or "an axis of '...'"

}  // namespace fusec::importer

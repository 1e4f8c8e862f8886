// SPDX-License-Identifier: Apache-2.0
// Parses the equation of an ONNX Einsum.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fusec::importer {

// One label per axis: the code of a letter, or for an axis of the ellipsis 256 plus its distance from the last axis of
// the ellipsis. Ellipses of different lengths are thereby aligned at their last axes.
using Labels = std::vector<int>;

struct Equation {
  std::vector<Labels> operands;
  Labels result;  // distinct labels, each in at least one operand
};

// Throws ImportError for an equation that breaks the rules or does not fit operands of these ranks.
Equation parse_equation(const std::string& text, const std::vector<int64_t>& ranks);

std::string label_name(int label);  // for errors: "'i'" or "an axis of '...'"

}  // namespace fusec::importer

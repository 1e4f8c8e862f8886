// SPDX-License-Identifier: Apache-2.0
// Algebra as one-line rules in the language of the op table's definitions: "a*1 -> a".
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/ops/definition.h"

namespace fusec::compiler {

struct Rule {
  ir::DefNode from, to;
};
Rule parse_rule(std::string_view text);

// What apply_rules does: both sides have equal bits for every operand, NaN and signed zeros included.
const std::vector<Rule>& exact_rules();

// What the operands a, b, c of a rule are.
using Binding = std::array<std::optional<ir::ValueId>, 3>;

// Applies the first rule that matches at each node; results inside a match are read by nothing else. A rewrite that
// would change the type is left out. True if something changed.
bool apply_rule_set(ir::Graph& graph, const std::vector<Rule>& rules,
                    const std::function<bool(const ir::Graph&, const Binding&)>& allowed);

}  // namespace fusec::compiler

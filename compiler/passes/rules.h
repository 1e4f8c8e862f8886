// SPDX-License-Identifier: Apache-2.0
// Algebraic rewrite rules of one line, in the language of the op table's definitions: "a*1 -> a".
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

// The exact rules of apply_rules: both sides have equal bits for every operand, NaN and signed zeros included.
const std::vector<Rule>& exact_rules();

// The values bound to the operands a, b, c of a rule.
using Binding = std::array<std::optional<ir::ValueId>, 3>;

// Applies the first rule that matches at each node. Inner results of a match must have no other user. A rewrite that
// would change the type is skipped. Returns true if something changed.
bool apply_rule_set(ir::Graph& graph, const std::vector<Rule>& rules,
                    const std::function<bool(const ir::Graph&, const Binding&)>& allowed);

}  // namespace fusec::compiler

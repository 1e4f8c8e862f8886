// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation: adds to a graph the nodes that compute gradients of one of its values. Each op has one
// rule: scalar ops their row's column `gradient` (ir/ops/scalar_ops.def), tensor ops a function (ir/gradient/rules.h).
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "ir/graph/graph.h"

namespace fusec::ir {

// For each of `wrt` the gradient of the sum of y * dy, of the type of that value; zeros where y does not depend on it.
// Only floats have gradients: integers and bools are constants here, as are the values in `held`. dy has the type of y.
// invalid_argument names what is no float or does not fit; unsupported the op that has no rule.
Result<std::vector<ValueId>> add_gradients(Graph& graph, ValueId y, ValueId dy, const std::vector<ValueId>& wrt,
                                           const std::set<ValueId>& held = {});

}  // namespace fusec::ir

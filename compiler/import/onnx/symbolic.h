// SPDX-License-Identifier: Apache-2.0
// Arithmetic on integers that are known as expressions over symbols.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fusec/dim.h"
#include "ir/ops/op.h"

namespace fusec::importer {

// Returns the value of a scalar op on integers or bools (0, 1), or nullopt where it cannot be decided for all extents
// >= 0.
std::optional<Dim> apply_symbolic(ir::ScalarOp op, std::span<const Dim> args);

// Whether a < b, a <= b, a == b; nullopt where it is not certain.
std::optional<bool> decide_less(const Dim& a, const Dim& b);
std::optional<bool> decide_less_equal(const Dim& a, const Dim& b);
std::optional<bool> decide_equal(const Dim& a, const Dim& b);

// Whether an expression is short enough to compute with. Hostile models contain formulas whose products grow without
// bound.
bool is_short(const Dim& d);
// Whether each of these and their product are short.
bool is_short_product(const std::vector<Dim>& dims);

// min and max, simplified where the order is certain.
Dim smaller(const Dim& a, const Dim& b);
Dim larger(const Dim& a, const Dim& b);

}  // namespace fusec::importer

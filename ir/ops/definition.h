// SPDX-License-Identifier: Apache-2.0
// The expressions in the op table's columns `definition` and `gradient`, as trees.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/ops/op.h"

namespace fusec::ir {

struct DefNode {
  enum class Kind : uint8_t { op, operand, number, y, dy };
  Kind kind = Kind::number;
  ScalarOp op = ScalarOp::add;  // for kind op
  int operand = 0;              // for kind operand: 0 is a, 1 is b, 2 is c
  double number = 0;
  std::vector<DefNode> args;  // for kind op
};

// FUSEC_CHECK on malformed text: the texts come from the op table.
DefNode parse_definition(std::string_view text);

// The tree of a row that is a definition. Parsed once.
const DefNode& definition(ScalarOp op);
// One expression per operand; nullopt if that operand has no gradient (the condition of `where`). Empty if the op is
// not differentiable.
const std::vector<std::optional<DefNode>>& gradients(ScalarOp op);

// Evaluates in double, with truth values 0 and 1. Rows in the tree are computed by their references.
struct DefInputs {
  double operands[3] = {0, 0, 0};
  double y = 0, dy = 1;
};
double eval_definition(const DefNode& node, const DefInputs& in);

}  // namespace fusec::ir

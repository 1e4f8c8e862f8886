// SPDX-License-Identifier: Apache-2.0
// The gradients of scalar ops: the trees of the column `gradient` as nodes, with sums where an operand was broadcast.

#include "ir/gradient/rules.h"
#include "ir/support/check.h"

namespace fusec::ir::gradient {
namespace {

ValueId written(Call& c, const DefNode& tree) {
  switch (tree.kind) {
    case DefNode::Kind::operand:
      return c.in(static_cast<std::size_t>(tree.operand));
    case DefNode::Kind::number:
      return c.number(c.type(c.dy).dtype, tree.number);
    case DefNode::Kind::y:
      return c.result();
    case DefNode::Kind::dy:
      return c.dy;
    case DefNode::Kind::op:
    case DefNode::Kind::step:
      break;
  }
  FUSEC_CHECK(tree.kind == DefNode::Kind::op) << "a step of a formula in a gradient";
  std::vector<ValueId> args;
  for (const DefNode& arg : tree.args) args.push_back(written(c, arg));
  return c.node(tree.op, std::move(args));
}

// 0*dy, of ops that are flat between steps.
bool is_zero(const DefNode& tree) {
  return tree.kind == DefNode::Kind::op && tree.op == ScalarOp::mul && tree.args[0].kind == DefNode::Kind::number &&
         tree.args[0].number == 0;
}

}  // namespace

Status scalar_rule(Call& c) {
  const ScalarOp op = c.call.op.scalar();
  if (op == ScalarOp::cast) {
    c.give(0, c.cast(c.dy, c.type(c.in(0)).dtype));
    return {};
  }
  const std::vector<std::optional<DefNode>>& trees = gradients(op);
  if (trees.empty()) return c.refuse("has no gradient; docs/ops.md lists the ops that have one");
  for (std::size_t i = 0; i < trees.size(); ++i) {
    if (!c.wants(i) || !trees[i] || is_zero(*trees[i])) continue;
    c.give(i, c.sum_to(written(c, *trees[i]), c.shape(c.in(i))));
  }
  return {};
}

}  // namespace fusec::ir::gradient

// SPDX-License-Identifier: Apache-2.0
// The algebra of apply_rules on values: both sides of each rule have equal bits.
#include "compiler/passes/rules.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace fusec::compiler {
namespace {

using ir::DefInputs;
using ir::DefNode;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kSpecials[] = {0.0, -0.0, 1, -1, 0.5, -0.5, 3, -7, 1e300, -1e300, 5e-324, -5e-324, kInf, -kInf, kNan};

// The node with definitions replaced by what they stand for, as the compiler computes them.
DefNode expanded(const DefNode& node, const std::vector<DefNode>* operands = nullptr) {
  if (node.kind == DefNode::Kind::operand)
    return operands != nullptr ? operands->at(static_cast<size_t>(node.operand)) : node;
  if (node.kind != DefNode::Kind::op) return node;
  DefNode out = node;
  for (DefNode& arg : out.args) arg = expanded(arg, operands);
  return info(node.op).is_definition ? expanded(ir::definition(node.op), &out.args) : out;
}

bool equal_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

void check(const Rule& rule, size_t number, const DefInputs& in) {
  const double from = eval_definition(expanded(rule.from), in), to = eval_definition(expanded(rule.to), in);
  EXPECT_TRUE(equal_bits(from, to)) << "rule " << number << ": " << from << " becomes " << to << " for "
                                    << in.operands[0] << ", " << in.operands[1] << ", " << in.operands[2];
}

TEST(Rules, BothSidesHaveEqualBits) {
  ASSERT_FALSE(exact_rules().empty());
  for (size_t number = 0; number < exact_rules().size(); ++number) {
    const Rule& rule = exact_rules()[number];
    const bool is_bool = info(rule.from.op).typing == ir::Typing::bool_;
    for (const double a : kSpecials) {
      if (is_bool && !(equal_bits(a, 0) || a == 1)) continue;
      check(rule, number, {{a, -2, 2}});
      check(rule, number, {{a, -0.0, 0.0}});
      check(rule, number, {{a, kNan, kInf}});
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace fusec::compiler

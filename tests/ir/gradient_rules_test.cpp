// SPDX-License-Identifier: Apache-2.0
// The gradient of each tensor op, and of compositions, against finite differences.
#include "tests/ir/gradient_rules.h"

namespace fusec::differences {
namespace {

void check_all(const std::vector<RuleCase>& rules) {
  for (const RuleCase& rule : rules) check(rule.name, rule.arguments, rule.function);
}

TEST(GradientRules, IndexMapsMatchFiniteDifferences) { check_all(moves()); }
TEST(GradientRules, GathersAndScattersMatchFiniteDifferences) { check_all(indexed()); }
TEST(GradientRules, ReductionsMatchFiniteDifferences) { check_all(reductions()); }
TEST(GradientRules, ProductsMatchFiniteDifferences) { check_all(products()); }
TEST(GradientRules, ConvolutionsMatchFiniteDifferences) { check_all(convolutions()); }
TEST(GradientRules, PoolingsMatchFiniteDifferences) { check_all(pools()); }

}  // namespace
}  // namespace fusec::differences

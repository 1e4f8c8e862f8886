// SPDX-License-Identifier: Apache-2.0
// Compiled gradients of each tensor op against the evaluator.
#include <algorithm>
#include <cmath>

#include "fusec/engine.h"
#include "fusec/session.h"
#include "runtime/plan/state.h"
#include "tests/ir/gradient_rules.h"

namespace fusec::differences {
namespace {

void check_compiled(const std::vector<RuleCase>& rules) {
  Options options;
  options.use_cache = false;
  for (const RuleCase& rule : rules) {
    const std::optional<Model> model = model_of(rule.arguments, rule.function, true);
    ASSERT_TRUE(model.has_value()) << rule.name;
    std::vector<Tensor> inputs = inputs_of(rule.arguments);
    inputs.push_back(dy_of(*model));
    const Result<Engine> engine = Engine::compile(*model, options);
    ASSERT_TRUE(engine.ok()) << rule.name << ": " << engine.status().str();
    const Result<std::vector<Tensor>> got = Session::create(*engine)->run(inputs);
    ASSERT_TRUE(got.ok()) << rule.name << ": " << got.status().str();
    const std::vector<Tensor> expected = evaluate(*model, inputs);
    for (std::size_t k = 0; k < expected.size(); ++k) {
      ASSERT_EQ((*got)[k].shape(), expected[k].shape()) << rule.name;
      for (int64_t i = 0; i < expected[k].num_elements(); ++i) {
        const double want = element(expected[k], i);
        EXPECT_NEAR(element((*got)[k], i), want, 1e-10 * std::max(1.0, std::fabs(want))) << rule.name << " " << k;
      }
    }
  }
}

TEST(CompiledGradients, IndexMaps) { check_compiled(moves()); }
TEST(CompiledGradients, GathersAndScatters) { check_compiled(indexed()); }
TEST(CompiledGradients, Reductions) { check_compiled(reductions()); }
TEST(CompiledGradients, Products) { check_compiled(products()); }
TEST(CompiledGradients, Convolutions) { check_compiled(convolutions()); }
TEST(CompiledGradients, Poolings) { check_compiled(pools()); }

}  // namespace
}  // namespace fusec::differences

// SPDX-License-Identifier: Apache-2.0
// Runs what a GPU writer prints of scheduled kernels under the emulation, beside the evaluator.
#pragma once

#include <vector>

#include "tests/codegen/lowered.h"
#include "tests/codegen/scheduled_rows.h"

namespace fusec::codegen_test {

// In both orders of threads. `expected` has an entry for each kernel, which also bounds its arguments. Fails the
// running test where results differ.
inline void expect_texts_like_evaluator(const std::vector<Scheduled>& all, const std::vector<Expectation>& expected,
                                        Codegen codegen) {
  std::vector<ir::Kernel> kernels;
  std::vector<std::string> texts;
  for (const Scheduled& s : all) {
    kernels.push_back(s.kernel);
    const auto text = codegen_test::emit_text(s.kernel, named_target("sm_90").value(), codegen);
    ASSERT_TRUE(text.ok()) << text.status().str();
    texts.push_back(*text);
  }
  const auto library = EmulationLibrary::make(kernels, texts);
  ASSERT_NE(library, nullptr);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto args = [&] { return make_args(kernels[i], all[i].extents, 7, expected[i].lo, expected[i].hi); };
    const std::vector<Tensor> want = args();
    const auto evaluated = ir::evaluate(kernels[i], want, all[i].extents);
    ASSERT_TRUE(evaluated.ok()) << evaluated.status().str();
    for (const bool reversed : {true, false}) {
      const std::vector<Tensor> got = args();
      const RunOutcome outcome = library->run(i, got, all[i].extents, reversed);
      ASSERT_EQ(outcome.error, "") << texts[i];
      expect_close(got, want, expected[i], "the emulation", ir::print(kernels[i]));
    }
  }
}

}  // namespace fusec::codegen_test

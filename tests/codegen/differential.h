// SPDX-License-Identifier: Apache-2.0
// Runs a kernel given as text on every usable target and compares it with the evaluator.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fusec/tensor.h"
#include "ir/kernel/kernel.h"
#include "tests/sanitized.h"

namespace fusec::codegen_test {

using Extents = std::map<std::string, int64_t>;

using testing_support::kSanitized;
using testing_support::many_or;
using testing_support::sampled;

// Of a kernel that ran as a GPU's.
struct RunOutcome {
  int32_t status = 0;  // the status word
  std::string error;   // of the machine: accesses and waits that cannot be
};

// Parameters with contents drawn from [lo, hi), equal for equal seeds; outputs hold a pattern of bytes.
std::vector<Tensor> make_args(const ir::Kernel& kernel, const Extents& extents, uint64_t seed, double lo, double hi);

// `text` with every occurrence of each first string replaced by the second, in order.
std::string filled(std::string text, const std::vector<std::pair<std::string, std::string>>& values);

struct Expectation {
  double ulp = 0;  // of floats, in the output's dtype
  double lo = -4, hi = 4;
  int splits = 3;
  double least = 0;  // smaller numbers are measured in units of this one: sums of larger ones, whose order differs
};
// Fails the running test where a tensor of `got` is not near that of `want`; the worst error in ulp. `who` and `text`
// go into the message.
double expect_close(const std::vector<Tensor>& got, const std::vector<Tensor>& want, const Expectation& expectation,
                    const std::string& who, std::string_view text);
// Fails the running test where an output differs, and returns the worst error in ulp.
double expect_like_evaluator(std::string_view kernel_text, const Extents& extents, const Expectation& expectation = {});

}  // namespace fusec::codegen_test

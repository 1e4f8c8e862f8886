// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fusec/status.h"
#include "tests/fuzz/case.h"

namespace fusec::fuzz {

// The outputs of each run, row-major, as the case's setting says.
Result<std::vector<std::vector<Tensor>>> execute(const Case& c);

// Every stage up to select; a GPU's kernels are printed by both emitters; then the kernels by the evaluator of kernels
// and library steps by that of graphs.
Result<std::vector<std::vector<Tensor>>> execute_kernels(const Case& c);

}  // namespace fusec::fuzz

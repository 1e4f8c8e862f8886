// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fusec/status.h"
#include "fusec/tensor.h"
#include "ir/kernel/kernel.h"

namespace fusec::text_test {

// A kernel, its arguments in parameter order (outputs zero-filled) and its extents.
struct KernelCase {
  ir::Kernel kernel;
  std::vector<Tensor> args;
  std::map<std::string, int64_t> extents;
};

// From kernel text with one "// input x = ..." line per in parameter (tests/text/inputs.h). Extents follow from the
// inputs' shapes and from lines "// extent n = 5".
Result<KernelCase> parse_kernel_case(const std::string& text);

}  // namespace fusec::text_test

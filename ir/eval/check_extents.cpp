// SPDX-License-Identifier: Apache-2.0
// Checks that the launch arguments of a kernel are there and keep to its facts, before the evaluator runs it.

#include <fmt/format.h>

#include "ir/eval/kernel_frame.h"

namespace fusec::ir {

Status check_extents(const Kernel& kernel, const std::map<std::string, int64_t>& extents) {
  for (uint32_t i = 0; i < kernel.extents.size(); ++i) {
    const ExtentId id{i};
    const std::string& name = kernel.extents[id];
    const auto it = extents.find(name);
    if (it == extents.end()) return Status(StatusCode::invalid_argument, "extent " + name + " has no value");
    const auto fact = kernel.divisible.find(id);
    if (fact != kernel.divisible.end() && it->second % fact->second != 0) {
      return Status(StatusCode::invalid_argument,
                    fmt::format("{} = {} breaks the fact {} % {} == 0", name, it->second, name, fact->second));
    }
  }
  return {};
}

}  // namespace fusec::ir

// SPDX-License-Identifier: Apache-2.0
// Verifies the form of kernels (kernel_form.h) and runs the range, phase and race checks on kernels of valid form. Only
// tests and fuzzers call it, on kernels from lower and from text; it changes nothing.

#include "ir/verify/kernel.h"

#include <fmt/format.h>

#include "ir/support/check.h"
#include "ir/verify/kernel_access.h"
#include "ir/verify/kernel_form.h"

namespace fusec::ir {

std::vector<std::string> findings(const Kernel& kernel) {
  std::vector<std::string> out;
  try {
    FormCheck(kernel, out).run();
    if (!out.empty()) return out;
    const AccessTable table = collect_accesses(kernel);
    check_ranges(kernel, table, out);
    check_phases(kernel, table, out);
    check_races(kernel, table, out);
  } catch (const DimOverflow& e) {
    out.push_back(e.what());
  }
  return out;
}

Status verify(const Kernel& kernel) {
  const std::vector<std::string> all = findings(kernel);
  if (all.empty()) return {};
  Status status(StatusCode::internal, fmt::format("kernel {}: {}", kernel.name, all[0]));
  for (std::size_t i = 1; i < all.size(); ++i) status = std::move(status).with_note(all[i]);
  return status;
}

}  // namespace fusec::ir

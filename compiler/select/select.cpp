// SPDX-License-Identifier: Apache-2.0
// The select stage: picks the candidate with the lowest predicted time in every variant. It also checks that the
// variants of every slot cover all shapes.

#include "compiler/select/select.h"

#include <algorithm>

namespace fusec::compiler {

Status select(ir::Program& program, const Target&) {
  for (ir::Slot& slot : program.slots) {
    if (slot.variants.empty() || !slot.variants.back().when.empty())
      return Status(StatusCode::internal, "a slot whose variants do not cover every shape");
    for (ir::Variant& variant : slot.variants) {
      const auto& c = variant.candidates;
      if (c.empty()) return Status(StatusCode::internal, "a variant without a candidate");
      const auto best = std::min_element(c.begin(), c.end(), [](const ir::Candidate& a, const ir::Candidate& b) {
        return a.predicted_us < b.predicted_us;
      });
      variant.picked = static_cast<int>(best - c.begin());
    }
  }
  return {};
}

}  // namespace fusec::compiler

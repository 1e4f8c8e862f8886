// SPDX-License-Identifier: Apache-2.0
// What to change, in sentences, from the parts of a gap.
#pragma once

#include <string>
#include <vector>

#include "runtime/tool/insight/gap.h"

namespace fusec::tool {

// What the run does already, so that no sentence says to do it.
struct RunSettings {
  bool gpu = false, cuda_graph = true, fuses = true, uses_rows = true;
  bool tf32 = false, half = false;  // in use
  bool allows_tf32 = false, allows_half = false;
};

struct Advice {
  Part part = Part::algorithm;
  double us = 0;         // predicted gain: of the part, or of a flag that changes more of each step than the part has
  std::string step;      // the largest one of the part; empty: it is of the whole run
  std::string layer;     // of that step
  bool of_call = false;  // that step is a library call
  double step_us = 0;    // of the part
  std::string flag;      // that makes the change; empty: none does
  std::string text;
};

// One for each part that is worth it, the largest gain first. `least_us`: gains below it are left out.
std::vector<Advice> make_advice(const std::vector<StepFacts>& steps, const Gap& gap, const RunSettings& run,
                                double least_us);

}  // namespace fusec::tool

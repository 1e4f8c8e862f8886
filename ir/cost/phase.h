// SPDX-License-Identifier: Apache-2.0
// The time of one phase on each kind of target, from its counts.
#pragma once

#include "ir/cost/counts.h"
#include "ir/cost/traffic.h"

namespace fusec::ir {

// `near`: the share of the launch's distinct bytes that begins in the last-level cache. `launch_bytes`: all of them.
struct PhaseSetting {
  const Kernel& kernel;
  const Target& target;
  const std::map<SymbolId, int64_t>& values;
  double near = 0;
  double launch_bytes = 0;
  double kept = 0;  // the share of what the phase reads that a pass just before it has left in the last-level cache
};
PhaseCost gpu_phase(const PhaseSetting& setting, const PhaseCounts& counts);
PhaseCost cpu_phase(const PhaseSetting& setting, const PhaseCounts& counts);

}  // namespace fusec::ir

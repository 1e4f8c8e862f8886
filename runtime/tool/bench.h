// SPDX-License-Identifier: Apache-2.0
// The two halves of `fusec bench`.
#pragma once

#include <string>

#include "runtime/tool/common.h"
#include "runtime/tool/timing.h"

namespace fusec::tool {

struct BenchFlags : ModelFlags {
  std::string patterns, batch;
  double duration = 1;
  int64_t runs = 0, warmup = 3;
  bool steps = false, library_sum = false, cycles = false;
  int64_t rotate_mb = 0;
  Budget budget() const { return {duration, runs, warmup}; }
};

// score = time of the fastest copy of the bytes of all inputs and outputs / time of the pattern, per file.
Result<bool> bench_patterns(const BenchFlags& flags);

}  // namespace fusec::tool

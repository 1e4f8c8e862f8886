// SPDX-License-Identifier: Apache-2.0
// Measures single accesses of a kernel to memory, and the mean value of index expressions.
#pragma once

#include <map>
#include <vector>

#include "ir/cost/counts.h"

namespace fusec::ir {

// `share` is the mean number of runs of the statement in one iteration of all `loops`: below 1 where a guard fails at
// times. `values` holds the kernel's extents and 0 for every loop variable.
CountedAccess measure_access(const Kernel& kernel, const std::vector<CountedLoop>& loops, BufferId id,
                             const std::vector<IndexExpr>& index, int width, double share,
                             std::map<SymbolId, int64_t>& values);

// The mean over the iterations of the loops that it uses.
double mean_value(const IndexExpr& e, const std::vector<CountedLoop>& loops, std::map<SymbolId, int64_t>& values);
// The share of them in which it is at least 0.
double share_nonneg(const IndexExpr& e, const std::vector<CountedLoop>& loops, std::map<SymbolId, int64_t>& values);

}  // namespace fusec::ir

// SPDX-License-Identifier: Apache-2.0
// Lower: builds the loop nest of a region as the target wants it, before loops are scheduled.
#pragma once

#include <map>

#include "compiler/lower/nest/nest.h"
#include "compiler/partition/partition.h"
#include "fusec/options.h"
#include "fusec/target.h"

namespace fusec::compiler {

// What all regions of a graph share.
struct NestContext {
  const ir::Graph& graph;
  const std::map<ir::ValueId, Storage>& storage;
  const Target& target;
  Numerics numerics;
};

// Where a task keeps no row in memory (on a GPU, or where threads share rows), row values are held in registers or
// recomputed.
Result<LoopNest> build_region_nest(const NestContext& context, const Region& region);

}  // namespace fusec::compiler

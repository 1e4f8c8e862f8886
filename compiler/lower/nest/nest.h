// SPDX-License-Identifier: Apache-2.0
// The semantic form of a region: one plain sequential loop per axis of its domain, index maps as index arithmetic,
// `reduce` where the graph reduces. Every schedule starts from it.
#pragma once

#include <map>
#include <vector>

#include "compiler/partition/domain.h"
#include "compiler/partition/partition.h"
#include "ir/kernel/kernel.h"

namespace fusec::compiler {

// The memory of a kernel parameter: `elements` elements from `offset` on, in the allocation of `owner`.
struct ParamSource {
  ir::ValueId owner;
  Dim offset;
  Dim elements;
};

struct Nest {
  ir::Kernel kernel;
  std::vector<ParamSource> params;  // in the order of kernel.params
  Domain domain;
};

struct NestOptions {
  Numerics numerics = Numerics::precise;
  // A value needed in several phases of a row is kept in a local buffer when recomputing it costs at least this many
  // cycles per 16 elements (the unit of ScalarOpInfo::cost).
  int stage_cost = 6;
  // Outputs are stored while the scan runs, so that no row is kept. The scan must be the region's only reduction.
  bool stores_in_scan = false;
};

Result<Nest> build_nest(const ir::Graph& graph, const std::map<ir::ValueId, Storage>& storage, const Region& region,
                        const NestOptions& options);

}  // namespace fusec::compiler

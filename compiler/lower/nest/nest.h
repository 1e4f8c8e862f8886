// SPDX-License-Identifier: Apache-2.0
// The semantic form of a region: one plain sequential loop per axis of its domain, index maps as index arithmetic,
// `reduce` where the graph reduces. Every schedule starts from it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/partition/domain.h"
#include "compiler/partition/partition.h"
#include "ir/kernel/kernel.h"

namespace fusec::compiler {

using ir::IndexExpr;
using ir::VarId;

// The memory of a kernel parameter: `elements` elements from `offset` on, in the allocation of `base`.
struct ParamSource {
  ir::ValueId base;
  Dim offset;
  Dim elements;
};

// Until abstract_extents, the extents of the kernel are the symbols of the model.
struct LoopNest {
  ir::Kernel kernel;
  std::vector<ParamSource> params;  // in the order of kernel.params
  Domain domain;
  std::map<std::string, ir::SymbolId> symbols;  // of the kernel, by their names in Dims
  // The loop variables of each axis of the domain: one, or one per phase if the axis is reduced.
  std::vector<std::vector<VarId>> axis_vars;
};

// The only place where names become ids: `d` is over symbols of the model, variables of the domain and registers.
IndexExpr index_expr(const LoopNest& nest, const Dim& d);

struct LoopNestOptions {
  Numerics numerics = Numerics::precise;
  // A value needed in several phases of a row is kept in a local buffer when recomputing it costs at least this many
  // cycles per 16 elements (the unit of ScalarOpInfo::cost).
  int stage_cost = 6;
  // Outputs are stored while the scan runs, so that no row is kept. The scan must be the region's only reduction.
  bool stores_in_scan = false;
};

Result<LoopNest> build_loop_nest(const ir::Graph& graph, const std::map<ir::ValueId, Storage>& storage,
                                 const Region& region, const LoopNestOptions& options);

}  // namespace fusec::compiler

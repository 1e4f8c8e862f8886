// SPDX-License-Identifier: Apache-2.0
// Chooses between the forms that a region's nest may have: row values kept in memory between phases, held in registers
// or computed again, and scans that store as they go.

#include "compiler/lower/region_nest.h"

#include <algorithm>
#include <limits>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/host/families.h"
#include "compiler/lower/schedule/schedule.h"
#include "compiler/partition/graph_names.h"

namespace fusec::compiler {

namespace {

// Whether the region's only reduction is a scan.
bool scans_alone(const Graph& graph, const Region& region) {
  const auto count = [&](const auto& is_counted) {
    return std::count_if(region.nodes.begin(), region.nodes.end(), is_counted);
  };
  return count([&](ir::NodeId id) { return is_reduction(graph, id); }) == 1 &&
         count([&](ir::NodeId id) { return graph.nodes[id].op == ir::TensorOp::cumsum; }) == 1;
}

Dim row_length(const Domain& domain) {
  Dim length = 1;
  for (size_t i = 0; i < domain.extents.size(); ++i)
    if (domain.reduced[i]) length *= domain.extents[i];
  return length;
}

}  // namespace

Result<LoopNest> build_region_nest(const NestContext& context, const Region& region) {
  const auto& [graph, storage, target, numerics] = context;
  LoopNestOptions nest_options;
  nest_options.numerics = numerics;
  if (graph.nodes[region.nodes[0]].op == ir::TensorOp::attention)
    return build_attention_nest(graph, storage, region, nest_options);
  if (target.kind == TargetKind::cpu) nest_options.conversion_cost = ir::info(ir::ScalarOp::cast).cost;
  nest_options.stores_in_scan = !target.keeps_rows || scans_alone(graph, region);
  FUSEC_ASSIGN(LoopNest nest, build_loop_nest(graph, storage, region, nest_options));
  if (target.keeps_rows && nest_options.stores_in_scan) {
    if (scans_in_place(peel_loops(nest.kernel.body[0]))) return nest;
    nest_options.stores_in_scan = false;
    FUSEC_ASSIGN(nest, build_loop_nest(graph, storage, region, nest_options));
  }
  if (!nest.domain.has_reduced()) return nest;
  const bool is_row = !columns_along(peel_loops(nest.kernel.body[0]));
  if (target.keeps_rows && !(is_row && recomputes_rows(target, nest.domain))) return nest;
  const Dim length = row_length(nest.domain);
  if (!target.keeps_rows && is_row && length.is_const() && length.value() <= longest_held_row()) return nest;
  nest_options.stage_cost = std::numeric_limits<int>::max();
  return build_loop_nest(graph, storage, region, nest_options);
}

}  // namespace fusec::compiler

// SPDX-License-Identifier: Apache-2.0
// The iteration domain of a generated region: one loop per factor of its elements, some of them reduced.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/partition/coords.h"
#include "fusec/status.h"
#include "ir/graph/graph.h"

namespace fusec::compiler {

// Where a region touches its domain: an output, or a reduction's input (full) and result (outer).
struct AccessPoint {
  ir::ValueId value;
  bool full = true;  // one element per point of the domain; else one per point of the unreduced axes
  Coords coords;     // in terms of the domain's variables
};

struct Domain {
  Shape extents;
  std::vector<bool> reduced;
  std::vector<std::string> vars;     // "d0", "d1", ...
  std::vector<AccessPoint> outputs;  // in the order of the region's outputs
  // Of the region's reductions, producers first.
  std::vector<ir::NodeId> reductions;
  std::vector<Coords> reduction_inputs;   // coordinates of input 0
  std::vector<Coords> reduction_results;  // coordinates of the result
  DimRanges ranges;                       // of the variables

  bool has_reduced() const { return !reductions.empty(); }
};

// The domain of a region that computes `nodes` (producers first) and materializes `outputs`, or why there is no common
// one. Exact: when it answers ok, lower can emit the region as one kernel.
Result<Domain> domain_of(const ir::Graph& graph, const std::vector<ir::NodeId>& nodes,
                         const std::vector<ir::ValueId>& outputs);

// Whether `value` comes from a node of the region, if need be through index maps outside it.
bool computed_in(const ir::Graph& graph, const std::set<ir::NodeId>& nodes, ir::ValueId value);

// The axes a reduction reduces (or scans).
std::vector<int64_t> reduced_axes(const ir::Node& node);
bool is_reduction(const ir::Graph& graph, ir::NodeId node);

// How a node that is no plain map reads its inputs: concat, pad, gather, small windows and the like. Coordinates that
// come from data are the symbol "?"; those that lie outside, of a pad with a constant or a part of a concat, are not
// read.
struct Read {
  int input = 0;
  Coords coords;
};
std::vector<Read> reads_of(const ir::Graph& graph, const ir::Node& node, const Coords& coords, const DimRanges& ranges);

}  // namespace fusec::compiler

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

// An access point of a region in its domain: an output, or a reduction's input (full) or result (outer).
struct AccessPoint {
  ir::ValueId value;
  bool full = true;  // one element per point of the domain; else one per point of the unreduced axes
  Coords coords;     // in terms of the domain's variables
};

struct Domain {
  Shape extents;
  std::vector<bool> reduced;
  std::vector<std::string> vars;     // "d?0", "d?1", ...: names of the model have no question mark
  std::vector<AccessPoint> outputs;  // in the order of the region's outputs
  // The region's reductions, producers first.
  std::vector<ir::NodeId> reductions;
  std::vector<Coords> reduction_inputs;   // coordinates of input 0
  std::vector<Coords> reduction_results;  // coordinates of the result
  DimRanges ranges;                       // of the variables

  bool has_reduced() const { return !reductions.empty(); }
};

// Returns the domain of a region that computes `nodes` (producers first) and materializes `outputs`, or an error that
// says why there is no common domain. The answer is exact: if it is ok, lower can emit the region as one kernel.
Result<Domain> compute_domain(const ir::Graph& graph, const std::vector<ir::NodeId>& nodes,
                              const std::vector<ir::ValueId>& outputs);

// Whether a node of the region produces `value`, directly or through index maps outside the region.
bool computed_in(const ir::Graph& graph, const std::set<ir::NodeId>& nodes, ir::ValueId value);

// The axes a reduction reduces (or scans).
std::vector<int64_t> reduced_axes(const ir::Node& node);
bool is_reduction(const ir::Graph& graph, ir::NodeId node);

// One read of an input by a node. A node that is no plain map (concat, pad, gather, small windows and the like) may
// read an input several times. Coordinates that come from data are the symbol "?". Coordinates outside the input, which
// occur for a pad with a constant and for the parts of a concat, are not read.
struct Read {
  int input = 0;
  Coords coords;
};
std::vector<Read> find_reads(const ir::Graph& graph, const ir::Node& node, const Coords& coords,
                             const DimRanges& ranges);

}  // namespace fusec::compiler

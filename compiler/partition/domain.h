// SPDX-License-Identifier: Apache-2.0
// Index maps and iteration domains. Index maps tell at which coordinates a node reads its inputs to compute an element
// of its output, small max_pool windows included: partition sees by them how a region reads its values, and lower emits
// the reads. The domain of a generated region has one loop per factor of its elements, some of them reduced.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "fusec/dim.h"
#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "ir/graph/graph.h"

namespace fusec::compiler {

using Coords = std::vector<Dim>;

// Maps coordinates of a broadcast result to coordinates in an operand of shape `from`, whose axes are right-aligned
// with those of the result by numpy's rule.
Coords broadcast_coords(const Coords& coords, const Shape& from);

// The coordinates in `to` of the element at `coords` of `from`, which has the same position in row-major order.
Coords reshape_coords(const Coords& coords, const Shape& from, const Shape& to, const DimRanges& ranges);

// The coordinates at which `node`, one of broadcast, reshape, transpose, slice or a scalar op, reads its input `i` to
// yield the element at `coords`. Other ops read at coordinates that need more than arithmetic.
Coords input_coords(const ir::Graph& graph, const ir::Node& node, int i, const Coords& coords, const DimRanges& ranges);
bool is_plain_map(ir::Op op);  // whether input_coords handles it

// The coarsest common factorization of shapes with equal element counts: `factors`, and for each shape how many factors
// make up each of its axes (axes of extent 1 have none). It is nullopt when there is none, as for [4,6] and [3,8].
struct Factorization {
  Shape factors;
  std::vector<std::vector<int>> groups;  // groups[shape][axis]: number of factors
};
std::optional<Factorization> factorize(const std::vector<Shape>& shapes);

// Whether `node` is a max_pool that a generated kernel computes as fast as a library: channels last, few positions in a
// window, no dilation, and at least one position of each window inside the image. A library computes the others.
bool is_small_window(const ir::Graph& graph, const ir::Node& node);
// The number of positions in its window.
int64_t window_size(const ir::Node& max_pool);
// Whether an element of the input is in several windows.
bool windows_overlap(const ir::Node& max_pool);

// The coordinates of all positions of the window of the result at `coords`. A position in the padding is replaced by
// the nearest element of the window inside the image. That element counts twice, which does not change a maximum, and
// no load needs a guard.
std::vector<Coords> window_coords(const ir::Graph& graph, const ir::Node& max_pool, const Coords& coords,
                                  const DimRanges& ranges);

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

// Whether the node casts a 16-bit float to f32.
bool widens(const ir::Graph& graph, const ir::Node& node);
// Whether generated kernels compute matrix products of all kinds by tiles: on a GPU where no library does, or may be
// asked to.
bool multiplies_by_kernels(const Target& target, const Options& options);
// Whether the node is the sum of a matrix product of 16-bit floats, as passes write it out:
//   reduce_sum(cast(a[..., 1, k]) * cast(b[n, k])) over k, in f32
// `any`: or of factors of f32, and of batches of matrices:
//   reduce_sum(a[..., m, 1, k] * b[..., 1, n, k]) over k, in f32
// There must be rows. One row for each image, as a gate is made from, is no such product: few rows of a large batch and
// the one row of a single image add alike in kernels of rows.
bool is_product_sum(const ir::Graph& graph, const ir::Node& node, bool any = false);

}  // namespace fusec::compiler

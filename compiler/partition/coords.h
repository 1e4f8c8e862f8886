// SPDX-License-Identifier: Apache-2.0
// Index maps as arithmetic on coordinates: at which coordinates a node reads its inputs to compute an element of its
// output. Partition uses it to see how a region reads its values, lower to emit the reads.
#pragma once

#include <vector>

#include "fusec/dim.h"
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

}  // namespace fusec::compiler

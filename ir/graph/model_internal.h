// SPDX-License-Identifier: Apache-2.0
// The public view of a graph: the Model that owns it, and the extents that its integer inputs index.
#pragma once

#include <vector>

#include "fusec/model.h"
#include "ir/graph/graph.h"

namespace fusec::ir {

// The public view of `graph`, of which it takes ownership.
Model make_model(Graph graph);

// For each input of the graph, the extents of the axes into which its elements are used as indices, followed as
// integers through scalar ops and index maps. Empty for inputs that are not used as indices.
std::vector<std::vector<Dim>> indexed_extents(const Graph& graph);

}  // namespace fusec::ir

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace fusec::ir {

// For each input of the graph, the extents of the axes into which its elements are used as indices, followed as
// integers through scalar ops and index maps. Empty for inputs that are not used as indices.
std::vector<std::vector<Dim>> indexed_extents(const Graph& graph);

}  // namespace fusec::ir

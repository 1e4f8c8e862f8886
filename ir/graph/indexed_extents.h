// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace fusec::ir {

// For each input of the graph, the extents of the axes that its elements select from, as far as they flow there as
// integers through scalar ops and index maps; empty for inputs that are no indices.
std::vector<std::vector<Dim>> indexed_extents(const Graph& graph);

}  // namespace fusec::ir

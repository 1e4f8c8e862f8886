// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph/graph.h"

namespace fusec::compiler {

// Returns why cuDNN's pooling cannot compute a max_pool or avg_pool, or null if it can. For symbolic extents, null
// means that it can for all values. runtime/library/cudnn/pool.cpp applies the same conditions to a call; a test holds
// the two together.
const char* cudnn_lacks(const ir::Graph& graph, const ir::Node& pool);

}  // namespace fusec::compiler

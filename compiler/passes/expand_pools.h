// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph/graph.h"

namespace fusec::compiler {

// What cuDNN's pooling has not that a max_pool or avg_pool needs; null: it has all. Of unknown extents, it has what it
// has for all of them. runtime/library/cudnn/pool.cpp says the same of a call; a test holds the two together.
const char* cudnn_lacks(const ir::Graph& graph, const ir::Node& pool);

}  // namespace fusec::compiler

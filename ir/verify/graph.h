// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fusec/status.h"
#include "ir/graph/graph.h"

namespace fusec::ir {

// What has been done to a graph, and what it may therefore contain. Both stages accept the same graphs.
enum class GraphForm : uint8_t {
  imported,   // any row of the op tables
  optimized,  // the same
};

// ok if ids are in range, `order` contains each live node once and after its producers, the type of every value is the
// one that infer_type gives, constants have data of their type, and the names of inputs and of outputs are unique. Dead
// nodes and values outside `order` are allowed. Otherwise internal: a pass, importer or parser broke the graph.
Status verify(const Graph& graph, GraphForm form);

}  // namespace fusec::ir

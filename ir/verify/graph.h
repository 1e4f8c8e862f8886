// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fusec/status.h"
#include "ir/graph/graph.h"

namespace fusec::ir {

// What has been done to a graph, and so what it may hold. Both stages accept the same graphs so far.
enum class Stage : uint8_t {
  imported,   // any row of the op tables
  optimized,  // the same
};

// ok when ids are in range, `order` holds each live node once and after its producers, the type of every value is what
// infer_type says, constants have data of their type, and names of inputs and of outputs are unique. Dead nodes and
// values outside of `order` are allowed. Otherwise internal: a pass, importer or parser broke the graph.
Status verify(const Graph& graph, Stage stage);

}  // namespace fusec::ir

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fusec/model.h"
#include "ir/graph/graph.h"

namespace fusec::ir {

// The public view of `graph`, which it takes over.
Model make_model(Graph graph);

}  // namespace fusec::ir

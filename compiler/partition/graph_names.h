// SPDX-License-Identifier: Apache-2.0
// The names of ir/graph that passes and partition use without a prefix. Only .cpp files include it.
#pragma once

#include "ir/graph/graph.h"

namespace fusec::compiler {

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::ScalarOp;
using ir::TensorOp;
using ir::ValueId;

}  // namespace fusec::compiler

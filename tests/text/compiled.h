// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fusec/status.h"
#include "fusec/tensor.h"
#include "ir/graph.h"

namespace fusec::text_test {

// Compiles the graph for this machine, runs it, and compares each element with the evaluator's. Does nothing in a build
// that compiles nothing.
Status check_compiled(const ir::Graph& graph, const std::vector<Tensor>& inputs, const std::vector<Tensor>& expected);

}  // namespace fusec::text_test

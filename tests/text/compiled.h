// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "fusec/status.h"
#include "fusec/tensor.h"
#include "ir/graph/graph.h"

namespace fusec::text_test {

// Compiles the graph for this machine, runs it, and compares each element with the evaluator's. Does nothing in a build
// that compiles nothing.
// precision: that of Options; f32 outputs then differ by as much as sums of that type may.
Status check_compiled(const ir::Graph& graph, const std::vector<Tensor>& inputs, const std::vector<Tensor>& expected,
                      std::optional<DType> precision = std::nullopt);

}  // namespace fusec::text_test

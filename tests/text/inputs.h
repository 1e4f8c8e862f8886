// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fusec/status.h"
#include "fusec/tensor.h"
#include "ir/graph/graph.h"

namespace fusec::text_test {

// Inputs of a graph from comment lines in its text, one per input, of the graph's dtype:
//   // input x = random 3 [2, 128]       (random_tensor with seed 3)
//   // input x = {1, 2, 3, 4, 5, 6} [2, 3]
Result<std::vector<Tensor>> parse_inputs(const ir::Graph& graph, const std::string& text);

// "y: f32[2, 3] {1, 2, 3, 4, 5, 6}"; of more than 24 elements the first eight, mean and root mean square. Floats have
// six digits.
std::string summarize(const std::string& name, const Tensor& tensor);

}  // namespace fusec::text_test

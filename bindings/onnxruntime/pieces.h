// SPDX-License-Identifier: Apache-2.0
// Which nodes run together.
#pragma once

#include <vector>

#include "bindings/onnxruntime/graph.h"

namespace fusec::ort {

// Pieces of nodes that `wanted` marks, each in ascending order, as few as can be. Every piece is convex, no path leaves
// it and comes back, and pieces can run one after another: contracted to one node each, they leave the graph without a
// cycle.
std::vector<std::vector<int>> find_pieces(const Graph& graph, const std::vector<bool>& wanted);

}  // namespace fusec::ort

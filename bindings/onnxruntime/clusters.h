// SPDX-License-Identifier: Apache-2.0
// Which nodes run together.
#pragma once

#include <vector>

#include "bindings/onnxruntime/graph.h"

namespace fusec::ort {

// Groups of nodes that `wanted` marks, each in ascending order, as few as can be. Every group is convex, no path leaves
// it and comes back, and groups can run one after another: contracted to one node each, they leave the graph without a
// cycle.
std::vector<std::vector<int>> find_clusters(const Graph& graph, const std::vector<bool>& wanted);

}  // namespace fusec::ort

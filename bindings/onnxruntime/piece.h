// SPDX-License-Identifier: Apache-2.0
// Compiles pieces of nodes, and asks fusec what it takes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bindings/onnxruntime/compiled.h"
#include "bindings/onnxruntime/graph.h"
#include "bindings/onnxruntime/settings.h"

namespace fusec::ort {

// A constant that the engine reads where ONNX Runtime has it. A session on a GPU has none: ONNX Runtime would move them
// to the GPU and free the host's memory, so fusec has copies of its own there.
struct Weight {
  std::string name;
  const void* data = nullptr;
};

// Some nodes of a graph and what they became.
struct Piece {
  std::vector<int> nodes;
  std::unique_ptr<Compiled> compiled;
  std::vector<Weight> weights;
  ModelHandle model;  // kept for packages where the session writes an EPContext model
};

// Throws Failure with fusec's message where the nodes cannot be compiled together.
Piece compile_piece(const Graph& graph, std::vector<int> nodes, const Settings& settings);

// For each of the nodes, why fusec does not take it; "" where it does. Throws Failure where fusec cannot read them at
// all.
std::vector<std::string> unsupported_reasons(const Graph& graph, const std::vector<int>& nodes,
                                             const Settings& settings);

// A text that is equal for two pieces if they have the same nodes and constants.
std::string fingerprint(const Graph& graph, const std::vector<int>& nodes);

// Whether fusec has this element type of ONNX.
bool has_dtype(int element);

}  // namespace fusec::ort

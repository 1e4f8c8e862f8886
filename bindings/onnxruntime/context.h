// SPDX-License-Identifier: Apache-2.0
// EPContext nodes: nodes of ONNX Runtime's compiled models that hold a package (.fsc), or the name of its file.
#pragma once

#include <memory>
#include <string>

#include "bindings/onnxruntime/piece.h"

namespace fusec::ort {

bool is_context_node(const Node& node);

// The engine of a node that fusec wrote. A package is a program: one inside the model is loaded with the options
// "trust" or "verify-key" alone, and one beside it also if nobody but the user or root could have written it.
std::unique_ptr<Compiled> load_context(const Api& api, const Graph& graph, const Node& node, const Settings& settings);

// The node for a piece, which ONNX Runtime puts in the place of the fused node `name`. Writes the package beside the
// model unless it goes inside.
OrtNode* write_context(const Api& api, const Graph& graph, const Piece& piece, const std::string& name,
                       const Settings& settings);

}  // namespace fusec::ort

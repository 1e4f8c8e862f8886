// SPDX-License-Identifier: Apache-2.0
// Weights that stay replaceable: while a model is compiled they are inputs, whose contents no pass and no library can
// rely on, and after that constants of the Program again.
#pragma once

#include <string>
#include <vector>

#include "fusec/status.h"
#include "fusec/tensor.h"
#include "ir/graph/graph.h"
#include "ir/program/program.h"

namespace fusec::runtime {

// Makes the constants that Options::replaceable_weights names the last inputs of the graph, and adds their contents, in
// order. invalid_argument: a name that no constant has, or one of another kind than Options says.
Result<ir::Graph> open_weights(const ir::Graph& graph, const std::vector<std::string>& names,
                               std::vector<Tensor>& contents);

// Makes the last inputs of the Program its constants.
void close_weights(ir::Program& program, std::vector<Tensor> contents);

}  // namespace fusec::runtime

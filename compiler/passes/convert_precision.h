// SPDX-License-Identifier: Apache-2.0
// An f32 model in f16 or bf16: weights and activations; inputs and outputs keep their types, and so do integers in f32
// (compiler/passes/wide_values.h). Kernels compute in f32 whatever their tensors are, so reductions, softmax and norms
// accumulate there.
#pragma once

#include "fusec/status.h"
#include "ir/graph/graph.h"

namespace fusec::compiler {

// `to`: f16 or bf16 (else invalid_argument). Values of other types than f32 stay. weights_ms, if set: grows by the time
// of converting constants.
Result<ir::Graph> with_precision(const ir::Graph& graph, DType to, double* weights_ms = nullptr);

}  // namespace fusec::compiler

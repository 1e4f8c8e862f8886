// SPDX-License-Identifier: Apache-2.0
// Converts an f32 model to f16 or bf16: its weights and activations. Inputs and outputs keep their types, and f32
// values that stand for integers stay f32 (compiler/passes/wide_values.h). Kernels compute in f32 whatever the types of
// their tensors, so reductions, softmax and norms accumulate in f32.
#pragma once

#include "fusec/status.h"
#include "ir/graph/graph.h"

namespace fusec::compiler {

// `to` must be f16 or bf16 (else invalid_argument). Values of types other than f32 are not converted. If `weights_ms`
// is set, the time of converting constants is added to it.
Result<ir::Graph> with_precision(const ir::Graph& graph, DType to, double* weights_ms = nullptr);

}  // namespace fusec::compiler

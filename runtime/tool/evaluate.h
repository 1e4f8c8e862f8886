// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fusec/model.h"
#include "fusec/status.h"
#include "fusec/tensor.h"

namespace fusec::tool {

// The graph as imported, by the evaluator, on all of the machine. wide: in f64. invalid_argument: the model has no
// graph.
Result<std::vector<Tensor>> evaluate_model(const Model& model, const std::vector<Tensor>& inputs, bool wide);

}  // namespace fusec::tool

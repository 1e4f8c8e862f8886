// SPDX-License-Identifier: Apache-2.0
// The values of a model by ONNX Runtime, which runs in a Python process of its own.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "fusec/model.h"
#include "fusec/status.h"
#include "fusec/tensor.h"
#include "runtime/tool/common.h"

namespace fusec::tool {

struct OnnxRuntimeValues {
  std::multimap<std::string, Tensor> by_origin;  // of nodes of the main graph; one with several outputs has several
  std::map<std::string, Tensor> outputs;         // by name
};

// Runs flags.model (.onnx) without ONNX Runtime's optimizations, on the CPU, with the weights and inputs of `model`.
// origins: of the nodes whose values are wanted. python: the interpreter. invalid_argument: no .onnx file, or the
// interpreter cannot be started or lacks the packages numpy and onnxruntime. unsupported: ONNX Runtime refuses the
// model, with what it says.
Result<OnnxRuntimeValues> run_onnxruntime(const ModelFlags& flags, const std::string& python, const Model& model,
                                          const std::vector<Tensor>& inputs, const std::set<std::string>& origins);

}  // namespace fusec::tool

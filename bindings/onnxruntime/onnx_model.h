// SPDX-License-Identifier: Apache-2.0
// Some nodes of a graph as an ONNX model of their own, as bytes.
#pragma once

#include <string>
#include <vector>

#include "bindings/onnxruntime/graph.h"
#include "bindings/onnxruntime/protobuf.h"

namespace fusec::ort {

struct OnnxModel {
  std::string bytes;
  std::vector<int> inputs, outputs;  // values of the graph, in the order of the model
  std::vector<int> constants;        // values that the model has as inputs and whose contents go beside it
};

// The model of `nodes`, indices in ascending order. Its inputs are what the nodes read and do not make, its outputs
// what they make and others read. Constants of at most a few KB are inside. The types of other values are written where
// they are known.
OnnxModel write_model(const Graph& graph, const std::vector<int>& nodes);

// Whether the value is one of OnnxModel::constants.
bool goes_beside_model(const Value& value);

// An ONNX TensorProto without a name: the contents of a value.
Message tensor_message(const Value& value);

}  // namespace fusec::ort

// SPDX-License-Identifier: Apache-2.0
// A graph of ONNX Runtime as plain data. It points into ONNX Runtime's memory and is for the call that it came with.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bindings/onnxruntime/api.h"

namespace fusec::ort {

// A type of a value. `element` is an element type of ONNX (1: float), 0 where the value is no tensor or has no type.
struct TensorType {
  int element = 0;
  bool ranked = false;
  std::vector<int64_t> dims;         // -1: not known
  std::vector<std::string> symbols;  // one per dim, "" where it has no name
};

struct Value {
  std::string name;
  TensorType type;
  bool is_constant = false;  // its contents are `data`, which live as long as ONNX Runtime's session
  bool is_graph_output = false;
  std::span<const std::byte> data;
};

constexpr int kAbsent = -1;  // in Node::inputs and outputs: an optional value that is not there

struct Node {
  const OrtNode* handle = nullptr;
  std::string name, op, domain;
  std::vector<int> inputs, outputs;  // indices into Graph::values
  std::vector<int> outer_inputs;     // what subgraphs of the node read
  std::string attributes;            // as fields of an ONNX NodeProto
  std::string refused;               // why the provider does not look at it; "" where it does
  bool taken = false;                // another provider has it, or this one since an earlier call

  const std::string& label() const { return name.empty() ? first_output : name; }
  std::string first_output;
};

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;  // in an order in which they can run
  std::map<std::string, int64_t> opsets;
  int64_t ir_version = 0;
  std::string model_path;  // "" for a model that came from memory
  bool is_nested = false;  // of an If, Loop or Scan
};

Graph read_graph(const Api& api, const OrtGraph* graph);

// The names of a node's inputs or outputs, in order; "" where one is absent.
std::vector<std::string> input_names(const Api& api, const OrtNode* node);
std::vector<std::string> output_names(const Api& api, const OrtNode* node);

// The bytes of an element of an ONNX type; 0 where the elements are no whole bytes, or no numbers.
std::size_t element_bytes(int element);

// The dims of a value of a run.
std::vector<int64_t> dims_of(const Api& api, const OrtValue* value);

}  // namespace fusec::ort

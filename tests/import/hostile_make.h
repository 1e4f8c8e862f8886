// SPDX-License-Identifier: Apache-2.0
// How hostile models are made: from ONNX's text syntax, with a part spoiled.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "compiler/import/onnx/proto.h"
#include "tests/import/hostile_models.h"

namespace fusec::importer {

using HostileList = std::vector<HostileModel>;

inline const std::string kInt64Max = std::to_string(std::numeric_limits<int64_t>::max());
inline const std::string kInt64Min = std::to_string(std::numeric_limits<int64_t>::min());

// A graph of `inputs` with the output y, e.g. {"relu_of_two", "float[4] x", "y = Relu(x, x)", "Relu"}. The Status must
// name the node that makes y, or `where`.
struct HostileGraph {
  std::string name, inputs, nodes, message, where = {};
};
void add_graphs(HostileList& list, const std::vector<HostileGraph>& rows);

// `nodes` behind a constant c of integers.
inline std::string ints(const std::string& values, const std::string& nodes) {
  return "c = Constant <value_ints = [" + values + "]> () " + nodes;
}

// `graph` is its text without a name; `functions` follow it.
proto::ModelProto parse_hostile(const std::string& graph, const std::string& functions = "",
                                const std::string& header = R"(<ir_version: 8, opset_import: ["" : 17]>)");

// y = Relu(x) with float[N, 4] x, spoiled.
struct SpoiledModel {
  std::string name, message;
  std::function<void(proto::ModelProto&)> edit;
};
void add_spoiled(HostileList& list, const std::vector<SpoiledModel>& rows);

// y = x + w with float[4] w of 16 bytes in raw_data, spoiled. The Status must name w.
struct SpoiledTensor {
  std::string name, message;
  std::function<void(proto::TensorProto&)> edit;
};
void add_spoiled(HostileList& list, const std::vector<SpoiledTensor>& rows);

// A protobuf field of bytes: tag, length, content.
std::string wire_field(char tag, const std::string& content);

// The parts of hostile_models().
void add_hostile_bytes(HostileList& list);
void add_hostile_models(HostileList& list);
void add_hostile_ops(HostileList& list);
void add_hostile_bombs(HostileList& list);
void add_hostile_functions(HostileList& list);
void add_hostile_tensors(HostileList& list);
void add_hostile_files(HostileList& list, const std::string& folder);

}  // namespace fusec::importer

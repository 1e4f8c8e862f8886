// SPDX-License-Identifier: Apache-2.0
// ONNX files to look at: nodes that call local functions, with metadata, for viewers such as Netron. They have no
// weights, and their ops are fusec's, so nothing runs them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/ops/attr.h"

namespace fusec::exporter {

// The domains of fusec's ops and of the functions.
inline constexpr const char* kOps = "fusec";
inline constexpr const char* kRegions = "fusec.regions";

using Metadata = std::vector<std::pair<std::string, std::string>>;

struct DrawnValue {
  std::string name;
  ir::Type type;
};

struct DrawnNode {
  std::string name, op, domain;  // the empty domain is ONNX's own
  std::vector<std::string> inputs, outputs;
  ir::Attrs attrs;
  Metadata metadata;
};

// A function of the domain kRegions. Names of values are its own.
struct DrawnFunction {
  std::string name;
  std::vector<std::string> inputs, outputs;
  std::vector<DrawnNode> nodes;
  std::vector<DrawnValue> values;  // types of what the nodes make
  Metadata metadata;
};

// Every name of a value has one producer, and stands before its users.
struct Drawing {
  std::string name;
  std::vector<DrawnValue> inputs, outputs, values;
  std::vector<DrawnNode> nodes;
  std::vector<DrawnFunction> functions;
  Metadata metadata;
};

// The bytes of a ModelProto of IR version 10, which has metadata of nodes and functions. Texts go through valid_utf8.
std::string write_onnx(const Drawing& drawing);
// Bytes that are no UTF-8, and control characters, as \xNN. Its own results stay as they are.
std::string valid_utf8(std::string_view text);

}  // namespace fusec::exporter

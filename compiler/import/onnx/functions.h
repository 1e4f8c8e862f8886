// SPDX-License-Identifier: Apache-2.0
// Functions: those defined in a model, and the bodies by which ONNX defines some of its ops.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/import/onnx/builder.h"
#include "compiler/import/onnx/proto.h"
#include "onnx/defs/schema.h"

namespace fusec::importer {

using AttributeMap = std::map<std::string, proto::AttributeProto>;

// Copies a node, replacing references to attributes of the enclosing function by their values. References without a
// value are dropped.
proto::NodeProto resolve_attributes(const proto::NodeProto& node, const AttributeMap& attributes);

// The functions of a model. The constructor throws ImportError when two have the same name or one calls itself,
// directly, through others or through subgraphs.
class Functions {
 public:
  explicit Functions(const proto::ModelProto& model);
  const proto::FunctionProto* find(const proto::NodeProto& node) const;

 private:
  using Key = std::tuple<std::string, std::string, std::string>;  // domain, name, overload
  void check_cycles() const;
  std::map<Key, const proto::FunctionProto*> functions_;
};

// ONNX's definition of an op in this opset. Throws ImportError: unsupported when there is none, invalid_model when the
// node does not fit it (number of operands, names and types of attributes).
const proto::OpSchema* checked_schema(const proto::NodeProto& node, const std::string& domain, int64_t opset);

bool has_body(const proto::OpSchema& schema);

struct SchemaFunction {
  proto::FunctionProto function;
  AttributeMap defaults;
};
// Returns the body by which ONNX defines the op, and the defaults of its attributes. types[i] is used only where
// inputs[i] is valid.
SchemaFunction schema_function(const proto::OpSchema& schema, const proto::NodeProto& node, int64_t opset,
                               const std::vector<Val>& inputs, const std::vector<ir::Type>& types);

}  // namespace fusec::importer

// SPDX-License-Identifier: Apache-2.0
// Imports a node of a domain whose ops are functions of the host.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/import/onnx/builder.h"
#include "compiler/import/onnx/proto.h"
#include "ir/graph/graph.h"

namespace fusec::importer {

// The function is called "domain.op_type" and takes the attributes as text. `type` is what value_info says of the
// result; empty: nothing. Refused with `unsupported`: several outputs, missing inputs, no type, and extents that no
// input has.
Val import_custom_call(Builder& b, const proto::NodeProto& node, const std::string& domain,
                       const std::vector<Val>& inputs, const std::optional<ir::Type>& type);

}  // namespace fusec::importer

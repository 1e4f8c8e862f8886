// SPDX-License-Identifier: Apache-2.0
// The import stage: turns an ONNX model into a Graph.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/import/onnx/proto.h"
#include "fusec/onnx.h"
#include "fusec/status.h"
#include "fusec/tensor.h"
#include "ir/graph/graph.h"

namespace fusec::importer {

// Imports a model. Ops become nodes of the graph, functions are inlined, and shape arithmetic and small exact constants
// are computed, so that the remaining nodes work on data. Errors: invalid_model where the model breaks a rule of ONNX;
// unsupported, with one message that names every unsupported op or the limit that the model exceeds; invalid_argument
// for options that do not fit the model; out_of_memory.
Result<ir::Graph> import_onnx(std::span<const uint8_t> bytes, const ImportOptions& options = {});
Result<ir::Graph> import_onnx(const proto::ModelProto& model, const ImportOptions& options = {});

// What import knows about a value of the main graph.
struct KnownValue {
  ir::Type type;
  std::optional<Tensor> data;                // contents of a constant
  std::optional<std::vector<Dim>> integers;  // contents of shape arithmetic
};
using KnownValues = std::map<std::string, KnownValue>;
// The known values of the main graph by name, as far as the model can be imported. Values that depend on an unsupported
// op and values after an error are left out.
KnownValues known_values(const proto::ModelProto& model, const ImportOptions& options = {});

// Imports a model in ONNX's text syntax, for tests. Text that does not parse is invalid_argument.
Result<ir::Graph> import_onnx_text(const std::string& text, const ImportOptions& options = {});

}  // namespace fusec::importer

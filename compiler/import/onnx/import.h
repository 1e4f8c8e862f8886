// SPDX-License-Identifier: Apache-2.0
// import: model bytes -> Graph.
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

// Every op becomes nodes of ours, functions are inlined, shape arithmetic and small exact constants are computed, so
// that what is left is work on data. Errors: invalid_model, where the model breaks a rule of ONNX; unsupported, one
// message that names every op that is lacking, or the limit that the model passes; invalid_argument for options that do
// not fit the model; out_of_memory.
Result<ir::Graph> import_onnx(std::span<const uint8_t> bytes, const ImportOptions& options = {});
Result<ir::Graph> import_onnx(const proto::ModelProto& model, const ImportOptions& options = {});

// What import learns of the values of the main graph, by name.
struct KnownValue {
  ir::Type type;
  std::optional<Tensor> data;                // contents, of a constant
  std::optional<std::vector<Dim>> integers;  // contents, of shape arithmetic
};
using KnownValues = std::map<std::string, KnownValue>;
// As far as the model can be imported: what depends on an op that is lacking, and what comes behind an error, is left
// out.
KnownValues known_values(const proto::ModelProto& model, const ImportOptions& options = {});

// A model in ONNX's text syntax, for tests. Text that does not parse is invalid_argument.
Result<ir::Graph> import_onnx_text(const std::string& text, const ImportOptions& options = {});

}  // namespace fusec::importer

// SPDX-License-Identifier: Apache-2.0
// import: model bytes -> Graph.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "compiler/import/onnx/proto.h"
#include "fusec/onnx.h"
#include "fusec/status.h"
#include "ir/graph.h"

namespace fusec::importer {

// Every op becomes nodes of ours, functions are inlined, shape arithmetic and small exact constants are computed, so
// that what is left is work on data. Errors: invalid_model; unsupported, one message that names every op that is
// lacking; invalid_argument for options that do not fit the model; out_of_memory.
Result<ir::Graph> import_onnx(std::span<const uint8_t> bytes, const ImportOptions& options = {});
Result<ir::Graph> import_onnx(const proto::ModelProto& model, const ImportOptions& options = {});

// A model in ONNX's text syntax, for tests. Text that does not parse is invalid_argument.
Result<ir::Graph> import_onnx_text(const std::string& text, const ImportOptions& options = {});

}  // namespace fusec::importer

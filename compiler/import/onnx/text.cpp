// SPDX-License-Identifier: Apache-2.0
// Imports a model written in ONNX's text syntax. Only tests use it.

#include "compiler/import/onnx/import.h"
#include "ir/support/guard.h"
#include "onnx/defs/parser.h"

namespace fusec::importer {

Result<ir::Graph> import_onnx_text(const std::string& text, const ImportOptions& options) {
  proto::ModelProto model;
  try {
    proto::OnnxParser parser(text.c_str());
    if (auto status = parser.Parse(model); !status.IsOK()) {
      return Status(StatusCode::invalid_argument, status.ErrorMessage());
    }
  } catch (...) {
    return ir::status_of_exception({.other = StatusCode::invalid_argument});
  }
  return import_onnx(model, options);
}

}  // namespace fusec::importer

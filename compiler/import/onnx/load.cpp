// SPDX-License-Identifier: Apache-2.0
// Defines the public entry points of the import stage, `load_onnx` and `load_onnx_bytes`, from which no exception
// leaves: they read the file, import it and wrap the graph as a Model. Tests also import models written in ONNX's text
// syntax.

#include <fmt/format.h>

#include "compiler/import/onnx/file.h"
#include "compiler/import/onnx/import.h"
#include "fusec/onnx.h"
#include "ir/graph/model_internal.h"
#include "ir/support/check.h"
#include "onnx/defs/parser.h"

namespace fusec {

Result<Model> load_onnx_bytes(std::span<const uint8_t> bytes, const ImportOptions& options) noexcept {
  return ir::guarded([&]() -> Result<Model> {
    FUSEC_ASSIGN(ir::Graph graph, importer::import_onnx(bytes, options));
    return ir::make_model(std::move(graph));
  });
}

Result<Model> load_onnx(const std::string& path, const ImportOptions& options) noexcept {
  return ir::guarded([&]() -> Result<Model> {
    ImportOptions here = options;
    if (here.model_dir.empty()) here.model_dir = importer::get_parent_folder(path);
    FUSEC_ASSIGN(const std::vector<uint8_t> bytes, importer::read_file(path, options.limits.model_bytes));
    Result<Model> model = load_onnx_bytes(bytes, here);
    if (model.ok()) return model;
    return ir::noted(model.status(), [&] { return fmt::format("while importing '{}'", path); });
  });
}

}  // namespace fusec

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

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "compiler/import/onnx/file.h"
#include "compiler/import/onnx/import.h"
#include "fusec/onnx.h"
#include "ir/model_internal.h"

namespace fusec {

Result<Model> load_onnx_bytes(std::span<const uint8_t> bytes, const ImportOptions& options) {
  FUSEC_ASSIGN(ir::Graph graph, importer::import_onnx(bytes, options));
  return ir::make_model(std::move(graph));
}

Result<Model> load_onnx(const std::string& path, const ImportOptions& options) {
  ImportOptions here = options;
  if (here.model_dir.empty()) here.model_dir = importer::folder_of(path);
  Result<std::vector<uint8_t>> bytes = importer::read_file(path, options.limits.model_bytes);
  if (!bytes.ok()) return bytes.status();
  Result<Model> model = load_onnx_bytes(*bytes, here);
  if (!model.ok()) return model.status().with_note(fmt::format("while importing '{}'", path));
  return model;
}

}  // namespace fusec

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
namespace {

// `use` of the bytes of the file, with its folder as the model's where options have none.
template <class Use>
auto with_file(const std::string& path, const ImportOptions& options, const Use& use)
    -> decltype(use(std::span<const uint8_t>(), options)) {
  ImportOptions here = options;
  if (here.model_dir.empty()) here.model_dir = importer::get_parent_folder(path);
  FUSEC_ASSIGN(const std::vector<uint8_t> bytes, importer::read_file(path, options.limits.model_bytes));
  auto answer = use(bytes, here);
  if (answer.ok()) return answer;
  return ir::noted(answer.status(), [&] { return fmt::format("while importing '{}'", path); });
}

}  // namespace

Result<Model> load_onnx_bytes(std::span<const uint8_t> bytes, const ImportOptions& options) noexcept {
  return ir::guarded([&]() -> Result<Model> {
    FUSEC_ASSIGN(ir::Graph graph, importer::import_onnx(bytes, options));
    return ir::make_model(std::move(graph));
  });
}

Result<Model> load_onnx(const std::string& path, const ImportOptions& options) noexcept {
  return ir::guarded([&]() -> Result<Model> {
    return with_file(path, options, [](std::span<const uint8_t> bytes, const ImportOptions& here) {
      return load_onnx_bytes(bytes, here);
    });
  });
}

Result<std::vector<NodeSupport>> check_onnx_bytes(std::span<const uint8_t> bytes,
                                                  const ImportOptions& options) noexcept {
  return ir::guarded([&] { return importer::check_nodes(bytes, options); });
}

Result<std::vector<NodeSupport>> check_onnx(const std::string& path, const ImportOptions& options) noexcept {
  return ir::guarded([&]() -> Result<std::vector<NodeSupport>> {
    return with_file(path, options, [](std::span<const uint8_t> bytes, const ImportOptions& here) {
      return check_onnx_bytes(bytes, here);
    });
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

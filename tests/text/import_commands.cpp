// SPDX-License-Identifier: Apache-2.0
#include "tests/text/commands.h"

#if FUSEC_WITH_ONNX

#include <sstream>

#include "compiler/import/onnx/import.h"
#include "ir/text/graph_text.h"
#include "ir/verify/graph.h"

namespace fusec::text_test {
namespace {

// ONNX's syntax knows no `//`.
std::string without_comments(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) out += line.starts_with("//") ? "\n" : line + "\n";
  return out;
}

}  // namespace

Result<std::string> run_import(const std::string& input, const std::string& args) {
  Result<ir::Graph> graph = importer::import_onnx_text(without_comments(input));
  if (args == "error") {
    if (graph.ok()) return Status(StatusCode::internal, "the model is imported");
    return graph.status().str() + "\n";
  }
  if (!graph.ok()) return graph.status();
  FUSEC_TRY(ir::verify(*graph, ir::GraphForm::imported));
  if (args.starts_with("run")) return run_values(*graph, input, args == "run" ? "" : args.substr(4));
  if (args.starts_with("optimized")) return optimized_text(*std::move(graph), args.substr(9));
  return "ops " + std::to_string(graph->imported_ops) + "\n" + ir::print(*graph);
}

}  // namespace fusec::text_test

#endif

// SPDX-License-Identifier: Apache-2.0
#include "ir/eval/graph.h"
#include "ir/text/graph_text.h"
#include "ir/verify/graph.h"
#include "tests/text/commands.h"
#include "tests/text/compiled.h"
#include "tests/text/inputs.h"

namespace fusec::text_test {

Result<std::string> run_roundtrip(const std::string& input, const std::string&) {
  FUSEC_ASSIGN(const ir::Graph graph, ir::parse_graph(input));
  FUSEC_TRY(ir::verify(graph, ir::GraphForm::imported));
  std::string text = ir::print(graph);
  FUSEC_ASSIGN(const ir::Graph again, ir::parse_graph(text, ir::constant_table(graph)));
  if (!ir::same_graph(graph, again))
    return Status(StatusCode::internal, "the printed text parses to another graph:\n" + text);
  if (ir::print(again) != text)
    return Status(StatusCode::internal, "printed again, the text differs:\n" + ir::print(again));
  return text;
}

Result<std::string> run_error(const std::string& input, const std::string& args) {
  const auto graph = ir::parse_graph(input);
  if (!graph.ok()) return graph.status().str() + "\n";
  if (args != "run") return Status(StatusCode::internal, "the text has no error");
  FUSEC_ASSIGN(const auto inputs, parse_inputs(*graph, input));
  const auto outputs = ir::evaluate(*graph, inputs);
  if (outputs.ok()) return Status(StatusCode::internal, "the graph runs");
  return outputs.status().str() + "\n";
}

Result<std::string> run_run(const std::string& input, const std::string& args) {
  FUSEC_ASSIGN(const ir::Graph graph, ir::parse_graph(input));
  FUSEC_TRY(ir::verify(graph, ir::GraphForm::imported));
  return run_values(graph, input, args);
}

Result<std::string> run_values(const ir::Graph& graph, const std::string& input, const std::string& args) {
  FUSEC_ASSIGN(const auto inputs, parse_inputs(graph, input));
  ir::EvalOptions options;
  options.threads = 2;
  options.wide = args == "wide";
  FUSEC_ASSIGN(const auto outputs, ir::evaluate(graph, inputs, options));
  if (!options.wide) FUSEC_TRY(check_compiled(graph, inputs, outputs, parse_dtype(args)));
  std::string text;
  for (std::size_t i = 0; i < outputs.size(); ++i) text += summarize(graph.output_names[i], outputs[i]);
  return text;
}

}  // namespace fusec::text_test

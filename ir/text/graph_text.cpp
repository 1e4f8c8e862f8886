// SPDX-License-Identifier: Apache-2.0
// Prints graphs as text, for dumps, tests and the `fusec` command. Parsing the text gives the same graph, bit by bit.

#include "ir/text/graph_text.h"

#include <fmt/format.h>

#include "ir/support/check.h"
#include "ir/support/hash.h"
#include "ir/text/lexer.h"

namespace fusec::ir {
namespace {

using Names = IdVector<ValueId, std::string>;

Names name_values(const Graph& graph) {
  Names names(graph.values.size());
  for (const ValueId v : graph.inputs) names[v] = sigil_name('%', graph.values[v].name);
  std::size_t number = 0;
  for (const NodeId n : graph.order) names[graph.nodes[n].output] = fmt::format("%{}", number++);
  return names;
}

std::string print_constant(const Tensor& data) {
  FUSEC_CHECK(data.is_contiguous()) << "constants are row-major";
  if (data.num_elements() > kInlineElements) return fmt::format("#{:016x}", content_hash(data));
  std::string items;
  const char* element = static_cast<const char*>(data.data());
  for (int64_t i = 0; i < data.num_elements(); ++i, element += size_of(data.dtype())) {
    items += (i == 0 ? "" : ", ") + literal(data.dtype(), element);
  }
  return "{" + items + "}";
}

// Everything after "%0 = ".
std::string print_node(const Graph& graph, const Node& node, const Names& names) {
  const std::string type = to_string(graph.type(node.output));
  if (node.op == Op(TensorOp::constant)) {
    return fmt::format("constant {} {}", type, print_constant(*graph.constant(node.output)));
  }
  std::string out(node.op.name());
  if (!node.inputs.empty()) out += ' ' + listed(node.inputs, [&](ValueId v) { return names[v]; });
  return out + print_attrs(node.op, node.attrs) + ": " + type;
}

}  // namespace

uint64_t content_hash(const Tensor& tensor) {
  FUSEC_CHECK(tensor.is_contiguous()) << "only row-major bytes are hashed";
  return hash64(std::span(static_cast<const std::byte*>(tensor.data()), tensor.bytes()));
}

ConstantTable constant_table(const Graph& graph) {
  ConstantTable table;
  for (const NodeId n : graph.order) {
    const Tensor* data = graph.constant(graph.nodes[n].output);
    if (data != nullptr && data->num_elements() > kInlineElements) table.emplace(content_hash(*data), *data);
  }
  return table;
}

std::string print(const Graph& graph) {
  const Names names = name_values(graph);
  const auto input = [&](ValueId v) { return names[v] + ": " + to_string(graph.type(v)); };
  std::string out = fmt::format("graph {}({}){} {{\n", sigil_name('@', graph.name), listed(graph.inputs, input),
                                limits_text(graph.limits));
  for (const NodeId n : graph.order) {
    const Node& node = graph.nodes[n];
    out += fmt::format("  {} = {}", names[node.output], print_node(graph, node, names));
    if (!node.origin.empty()) out += "  // " + escaped(node.origin);
    out += '\n';
  }
  std::size_t slot = 0;
  const auto result = [&](ValueId v) { return names[v] + " as " + quote(graph.output_names[slot++]); };
  const std::string results = listed(graph.outputs, result);
  return out + (results.empty() ? "  return\n}\n" : "  return " + results + "\n}\n");
}

}  // namespace fusec::ir

// SPDX-License-Identifier: Apache-2.0
// Optimize pass: merges equal nodes on equal operands, and equal small constants.

#include <map>

#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"
#include "ir/text/lexer.h"

namespace fusec::compiler {
namespace {

// Larger constants are not compared, because equal ones are rare and costly to find.
constexpr std::size_t kMaxBytes = 1024;

std::string make_key(const Graph& graph, NodeId id) {
  const Node& node = graph.nodes[id];
  std::string key = std::string(node.op.name()) + "|" + to_string(graph.type(node.output));
  if (node.op == TensorOp::constant) {
    const Tensor& data = graph.constants.at(id);
    return data.bytes() > kMaxBytes ? "" : key + "|" + std::string(static_cast<const char*>(data.data()), data.bytes());
  }
  for (ir::ValueId v : node.inputs) key += "|" + std::to_string(v.index);
  return key + ir::print_attrs(node.op, node.attrs);
}

}  // namespace

Result<bool> share_nodes(Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  std::map<std::string, ir::ValueId> known;
  rewriter.walk([&](NodeId id) {
    std::string key = make_key(graph, id);
    if (key.empty()) return;
    const ir::ValueId value = graph.nodes[id].output;
    rewriter.replace(value, known.emplace(std::move(key), value).first->second);
  });
  return rewriter.changed();
}

}  // namespace fusec::compiler

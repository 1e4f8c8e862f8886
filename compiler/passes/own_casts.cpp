// SPDX-License-Identifier: Apache-2.0
// Optimize pass: gives every node that uses a cast from a 16-bit float to f32 a cast of its own. Partition then fuses
// each with its user, and kernels hand on 16 bits where one cast for all would be stored in 32.
//
//   c = cast(x), a = f(c), b = g(c)  ->  a = f(cast(x)), b = g(cast(x))

#include <map>
#include <utility>

#include "compiler/partition/domain.h"
#include "compiler/partition/graph_names.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewriter.h"

namespace fusec::compiler {

Result<bool> own_casts(Graph& graph, const PassContext&) {
  const auto uses = use_counts(graph);
  std::map<ValueId, bool> taken;  // by the first of several users
  bool changed = false;
  const std::vector<NodeId> order = graph.order;
  for (const NodeId id : order) {
    std::map<ValueId, ValueId> own;
    const std::vector<ValueId> inputs = graph.nodes[id].inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const NodeId producer = graph.values[inputs[i]].producer;
      if (!producer.valid() || uses[inputs[i]] < 2 || !widens(graph, graph.nodes[producer])) continue;
      if (!own.contains(inputs[i])) {
        const Node cast = graph.nodes[producer];
        const bool first = !std::exchange(taken[inputs[i]], true);
        own[inputs[i]] = first ? inputs[i] : add_node(graph, cast.op, cast.inputs, cast.attrs, cast.origin);
        changed = changed || !first;
      }
      graph.nodes[id].inputs[i] = own[inputs[i]];
    }
  }
  return changed;
}

}  // namespace fusec::compiler

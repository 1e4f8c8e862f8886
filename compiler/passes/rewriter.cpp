// SPDX-License-Identifier: Apache-2.0
// Counts the uses of values for passes of the optimize stage that may rewrite only values with a single use.

#include "compiler/passes/rewriter.h"

namespace fusec::compiler {

ir::IdVector<ir::ValueId, int> use_counts(const ir::Graph& graph) {
  ir::IdVector<ir::ValueId, int> counts(graph.values.size(), 0);
  for (ir::NodeId id : graph.order)
    for (ir::ValueId v : graph.nodes[id].inputs) ++counts[v];
  for (ir::ValueId v : graph.outputs) ++counts[v];
  return counts;
}

}  // namespace fusec::compiler

// SPDX-License-Identifier: Apache-2.0
#include "ir/graph/indexed_extents.h"
#include "ir/graph/model_internal.h"

namespace fusec::ir {

Model make_model(Graph graph) {
  Model model;
  model.symbols = graph.symbols;
  std::vector<std::vector<Dim>> indexed = indexed_extents(graph);
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const Value& value = graph.values[graph.inputs[i]];
    model.inputs.push_back({value.name, value.type.dtype, value.type.shape, std::move(indexed[i])});
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const Type& type = graph.type(graph.outputs[i]);
    model.outputs.push_back({graph.output_names[i], type.dtype, type.shape});
  }
  model.graph = std::make_shared<const Graph>(std::move(graph));
  return model;
}

}  // namespace fusec::ir

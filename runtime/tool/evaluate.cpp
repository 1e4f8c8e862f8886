// SPDX-License-Identifier: Apache-2.0
// Evaluates a model's graph as imported with the reference evaluator, for commands that compare compiled outputs. It
// does not use the compiler's later stages.

#include "runtime/tool/evaluate.h"

#include "ir/eval/graph.h"
#include "runtime/tool/output.h"

namespace fusec::tool {

Result<std::vector<Tensor>> evaluate_model(const Model& model, const std::vector<Tensor>& inputs, bool wide) {
  if (!model.graph)
    return Status(StatusCode::invalid_argument, "a package has no graph to evaluate: name the model itself");
  const Progress progress("evaluating the reference");
  ir::EvalOptions options;
  options.threads = 0;
  options.wide = wide;
  return ir::evaluate(*model.graph, inputs, options);
}

}  // namespace fusec::tool

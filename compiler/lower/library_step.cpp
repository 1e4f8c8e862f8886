// SPDX-License-Identifier: Apache-2.0
// Lower: makes the library step of a region. Its arguments are the anchor's operands, a bias, the operands of the
// epilogues, and the result.

#include "compiler/lower/library_step.h"

namespace fusec::compiler {

namespace {

// Flattens a bias to a vector: the axis of extent > 1.
ir::View flat_bias(const ir::View& v) {
  ir::View flat{v.alloc, v.offset, {1}, {1}};
  for (size_t i = 0; i < v.shape.size(); ++i) {
    if (v.shape[i].is(1)) continue;
    flat.shape = {v.shape[i]};
    flat.strides = {v.strides[i]};
  }
  return flat;
}

}  // namespace

Result<ir::LibraryStep> make_library_step(const ir::Graph& graph, const Region& region,
                                          const std::function<Result<ir::View>(ir::ValueId)>& view) {
  const ir::Node& anchor = graph.nodes[region.nodes[0]];
  ir::LibraryStep step;
  step.op = anchor.op.tensor();
  step.attrs = anchor.attrs;
  step.compute = compute_type(graph.type(anchor.output).dtype);
  const std::vector<ir::Role> roles = ir::roles_of(step.op);
  for (size_t i = 0; i < anchor.inputs.size(); ++i) {
    FUSEC_ASSIGN(ir::View v, view(anchor.inputs[i]));
    step.args.push_back(std::move(v));
    if (i < roles.size() && roles[i] == ir::Role::bias) step.bias = static_cast<int>(i);
  }
  if (region.bias.valid()) {
    FUSEC_ASSIGN(ir::View v, view(region.bias));
    step.bias = static_cast<int>(step.args.size());
    step.args.push_back(flat_bias(v));
  }
  for (const AnchorEpilogue& e : region.epilogues) {
    ir::Epilogue epilogue = e.epilogue;
    if (e.operand.valid()) {
      FUSEC_ASSIGN(ir::View v, view(e.operand));
      epilogue.operand = static_cast<int>(step.args.size());
      step.args.push_back(std::move(v));
    }
    step.epilogues.push_back(epilogue);
  }
  FUSEC_ASSIGN(ir::View out, view(region.outputs[0]));
  step.args.push_back(std::move(out));
  return step;
}

}  // namespace fusec::compiler

// SPDX-License-Identifier: Apache-2.0
// The table of rules, and what they have in common. A new tensor op without a line here is a warning of the compiler.

#include "ir/gradient/rules.h"

#include "ir/support/check.h"

namespace fusec::ir::gradient {
namespace {

Status custom_call_rule(Call& call) {
  return call.refuse(
      "has no gradient: what its function computes is not known; differentiate up to its result, and on "
      "from its operands with a dy of your own");
}

Status no_rule(Call& call) { return call.refuse("has no gradient"); }

GradientRule tensor_rule(TensorOp op) {
  switch (op) {
    case TensorOp::broadcast:
      return broadcast_rule;
    case TensorOp::reshape:
      return reshape_rule;
    case TensorOp::transpose:
      return transpose_rule;
    case TensorOp::slice:
      return slice_rule;
    case TensorOp::concat:
      return concat_rule;
    case TensorOp::pad:
      return pad_rule;
    case TensorOp::gather:
      return gather_rule;
    case TensorOp::gather_elements:
      return gather_elements_rule;
    case TensorOp::gather_nd:
      return gather_nd_rule;
    case TensorOp::reduce_sum:
      return reduce_sum_rule;
    case TensorOp::reduce_prod:
      return reduce_prod_rule;
    case TensorOp::reduce_max:
    case TensorOp::reduce_min:
      return reduce_extreme_rule;
    case TensorOp::reduce_mean:
      return reduce_mean_rule;
    case TensorOp::cumsum:
      return cumsum_rule;
    case TensorOp::scatter_elements:
      return scatter_elements_rule;
    case TensorOp::scatter_nd:
      return scatter_nd_rule;
    case TensorOp::conv:
      return conv_rule;
    case TensorOp::matmul:
      return matmul_rule;
    case TensorOp::max_pool:
    case TensorOp::avg_pool:
      return pool_rule;
    case TensorOp::attention:
      return attention_rule;
    case TensorOp::custom_call:
      return custom_call_rule;
    case TensorOp::unfold:  // made by passes alone, after gradients
      return no_rule;
    case TensorOp::constant:  // without operands
    case TensorOp::iota:
    case TensorOp::dim:
    case TensorOp::argmax:  // with integers as results
    case TensorOp::argmin:
    case TensorOp::topk:
      return no_rule;
  }
  return no_rule;
}

}  // namespace

GradientRule rule_of(const Op& op) { return op.is_scalar() ? scalar_rule : tensor_rule(op.tensor()); }

Call::Call(Graph& graph, const Node& node, ValueId dy, std::vector<bool> wanted)
    : Writer(graph, "gradient of " + std::string(node.op.name())),
      call(node),
      dy(dy),
      wanted_(std::move(wanted)),
      given_(node.inputs.size()) {}

void Call::give(std::size_t operand, ValueId v) {
  FUSEC_CHECK(type(v) == type(in(operand)))
      << "the gradient of operand " << operand << " of " << call.op.name() << " is " << to_string(type(v));
  given_[operand] = v;
}

Status Call::through(std::size_t first, ValueId same, const std::set<ValueId>& held) {
  std::set<ValueId> seen;  // a value that is several operands gets all of its gradient once
  std::vector<std::size_t> places;
  std::vector<ValueId> wrt;
  for (std::size_t i = 0; i < operands(); ++i) {
    if (!wants(i) || !seen.insert(in(i)).second) continue;
    places.push_back(i);
    wrt.push_back(in(i));
  }
  FUSEC_ASSIGN(const auto gradients, walk_back(graph(), first, same, dy, wrt, held));
  for (std::size_t i = 0; i < places.size(); ++i)
    if (gradients[i]) give(places[i], *gradients[i]);
  return {};
}

Status Call::refuse(const std::string& why) const {
  std::string text = "gradients: " + std::string(call.op.name()) + " of ";
  for (std::size_t i = 0; i < operands(); ++i) text += (i > 0 ? ", " : "") + to_string(type(in(i)));
  return Status(StatusCode::unsupported, text + " " + why);
}

}  // namespace fusec::ir::gradient

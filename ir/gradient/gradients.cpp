// SPDX-License-Identifier: Apache-2.0
// The walk over a graph from a value back to those whose gradients are asked for. A first walk forward finds what
// depends on these, so that no rule is asked for anything else; where a value has several users, the gradients that
// they give are added.

#include "ir/gradient/gradients.h"

#include <algorithm>

#include "ir/gradient/rules.h"
#include "ir/support/check.h"

namespace fusec::ir {
namespace gradient {
namespace {

// Which values depend on one of `wrt` by floats.
std::vector<bool> depending(const Graph& graph, std::size_t first, const std::vector<ValueId>& wrt,
                            const std::set<ValueId>& held) {
  std::vector<bool> depends(graph.values.size(), false);
  for (ValueId v : wrt) depends[v.index] = true;
  for (std::size_t i = first; i < graph.order.size(); ++i) {
    const Node& node = graph.nodes[graph.order[i]];
    if (!is_float(graph.type(node.output).dtype) || held.count(node.output) > 0) continue;
    const bool reads = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return depends[v.index]; });
    if (reads) depends[node.output.index] = true;
  }
  return depends;
}

}  // namespace

Result<std::vector<std::optional<ValueId>>> walk_back(Graph& graph, std::size_t first, ValueId y, ValueId dy,
                                                      const std::vector<ValueId>& wrt, const std::set<ValueId>& held) {
  const std::vector<bool> depends = depending(graph, first, wrt, held);
  std::vector<std::optional<ValueId>> gradients(graph.values.size());
  if (depends[y.index]) gradients[y.index] = dy;
  for (std::size_t i = graph.order.size(); i-- > first;) {
    const Node& node = graph.nodes[graph.order[i]];
    if (node.output.index >= gradients.size() || !gradients[node.output.index]) continue;
    std::vector<bool> wanted;
    for (ValueId v : node.inputs) wanted.push_back(depends[v.index]);
    if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) continue;
    Call call(graph, node, *gradients[node.output.index], std::move(wanted));
    FUSEC_TRY(rule_of(node.op)(call));
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (!call.given(k)) continue;
      std::optional<ValueId>& sum = gradients[node.inputs[k].index];
      sum = sum ? call.node(ScalarOp::add, {*sum, *call.given(k)}) : call.given(k);
    }
  }
  std::vector<std::optional<ValueId>> out;
  for (ValueId v : wrt) out.push_back(gradients[v.index]);
  return out;
}

}  // namespace gradient

namespace {

Status check_float(const Graph& graph, ValueId v, const std::string& what) {
  if (is_float(graph.type(v).dtype)) return {};
  return Status(StatusCode::invalid_argument,
                "gradients: " + what + " is " + to_string(graph.type(v)) + "; only floats have gradients");
}

}  // namespace

Result<std::vector<ValueId>> add_gradients(Graph& graph, ValueId y, ValueId dy, const std::vector<ValueId>& wrt,
                                           const std::set<ValueId>& held) {
  FUSEC_TRY(check_float(graph, y, "the result"));
  for (std::size_t i = 0; i < wrt.size(); ++i) FUSEC_TRY(check_float(graph, wrt[i], "wrt[" + std::to_string(i) + "]"));
  if (!(graph.type(dy) == graph.type(y))) {
    return Status(StatusCode::invalid_argument, "gradients: dy is " + to_string(graph.type(dy)) + ", the result " +
                                                    to_string(graph.type(y)) + "; they have one type");
  }
  FUSEC_ASSIGN(const auto found, gradient::walk_back(graph, 0, y, dy, wrt, held));
  std::vector<ValueId> out;
  gradient::Writer zeros(graph, "gradient of what the result does not depend on");
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    const Type& type = graph.type(wrt[i]);
    out.push_back(found[i] ? *found[i] : zeros.filled(type.dtype, 0, type.shape));
  }
  return out;
}

}  // namespace fusec::ir

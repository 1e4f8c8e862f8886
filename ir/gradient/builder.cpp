// SPDX-License-Identifier: Apache-2.0
// GraphBuilder::gradients. No exception leaves a public function.

#include <optional>

#include "ir/gradient/gradients.h"
#include "ir/graph/builder_state.h"
#include "ir/support/check.h"

namespace fusec {
namespace {

// 1 of the type of y, which has one element.
Result<Var> one_for(BuilderState& state, Var y) {
  if (!num_elements(y.shape()).is(1)) {
    return Status(StatusCode::invalid_argument, "gradients: the result is " +
                                                    to_string(state.graph.type(BuilderState::id(y))) +
                                                    "; without a dy it has one element: reduce it, or give a dy");
  }
  const Var one = state.var(ir::add_scalar_constant(state.graph, y.dtype(), 1));
  return y.rank() == 0 ? one : state.node(ir::TensorOp::broadcast, {one}, {{"shape", y.shape()}});
}

Result<std::vector<Var>> differentiate(BuilderState& state, Var y, const std::vector<Var>& wrt, std::optional<Var> dy) {
  if (!state.usable(wrt, "gradients") || !state.usable({y}, "gradients") || (dy && !state.usable({*dy}, "gradients")))
    return std::vector<Var>(wrt.size());
  if (!dy) {
    FUSEC_ASSIGN(dy, one_for(state, y));
  }
  std::vector<ir::ValueId> values;
  for (Var v : wrt) values.push_back(BuilderState::id(v));
  FUSEC_ASSIGN(const std::vector<ir::ValueId> made,
               ir::add_gradients(state.graph, BuilderState::id(y), BuilderState::id(*dy), values, state.held));
  std::vector<Var> out;
  for (ir::ValueId v : made) out.push_back(state.var(v));
  return out;
}

std::vector<Var> differentiated(BuilderState* state, Var y, const std::vector<Var>& wrt,
                                std::optional<Var> dy) noexcept {
  if (state != nullptr) {
    Result<std::vector<Var>> made = ir::guarded([&] { return differentiate(*state, y, wrt, dy); });
    if (made.ok()) return std::move(*made);
    state->record(made.status());
  }
  try {
    return std::vector<Var>(wrt.size());
  } catch (...) {
    return {};
  }
}

}  // namespace

std::vector<Var> GraphBuilder::gradients(Var y, const std::vector<Var>& wrt) noexcept {
  return differentiated(state_.get(), y, wrt, std::nullopt);
}

std::vector<Var> GraphBuilder::gradients(Var y, const std::vector<Var>& wrt, Var dy) noexcept {
  return differentiated(state_.get(), y, wrt, dy);
}

}  // namespace fusec

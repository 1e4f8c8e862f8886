// SPDX-License-Identifier: Apache-2.0
// Lower: moves the start of inputs to the first element that the kernel reads, so that regions on different slices of
// one value become one kernel.

#include "compiler/lower/nest/rebase.h"

#include <algorithm>
#include <optional>

#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

std::vector<ir::SymbolId> loop_vars(const ir::Kernel& kernel) {
  std::vector<ir::SymbolId> vars;
  for_each_stmt(kernel.body, [&](const ir::Stmt& stmt) {
    ir::for_each_head(stmt, [&](const ir::LoopHead& head) { vars.push_back(head.var); });
  });
  return vars;
}

// The lowest element that the loads of a flat buffer reach, if it is a constant; 0 if it is not known.
int64_t first_element(const ir::Kernel& kernel, ir::BufferId buffer, const std::vector<ir::SymbolId>& vars) {
  std::optional<int64_t> first;
  bool known = true;
  for_each_stmt(kernel.body, [&](const ir::Stmt& stmt) {
    const auto* load = std::get_if<ir::Load>(&stmt.v);
    if (load == nullptr || load->buffer != buffer) return;
    const auto affine = affine_in(load->index[0], vars);
    known = known && load->clamp == 0 && affine && affine->rest.is_const();
    if (!known) return;
    for (const auto& [var, coefficient] : affine->coefficients) known = known && proves_nonneg(coefficient, {});
    first = std::min(first.value_or(affine->rest.value()), affine->rest.value());
  });
  return known ? std::max<int64_t>(first.value_or(0), 0) : 0;
}

}  // namespace

void rebase_inputs(LoopNest& nest, const std::function<bool(ir::ValueId)>& bases) {
  ir::Kernel& kernel = nest.kernel;
  std::vector<ir::SymbolId> vars;
  for (size_t i = 0; i < nest.params.size(); ++i) {
    const ir::BufferId id = kernel.params[i];
    ir::Buffer& buffer = kernel.buffers[id];
    const bool is_flat = buffer.space == ir::Space::in && buffer.shape.size() == 1 && buffer.strides.empty();
    if (!is_flat || !bases(nest.params[i].base)) continue;
    if (std::any_of(kernel.may_alias.begin(), kernel.may_alias.end(),
                    [&](const auto& pair) { return pair.first == id; }))
      continue;
    if (vars.empty()) vars = loop_vars(kernel);
    const int64_t first = first_element(kernel, id, vars);
    if (first == 0) continue;
    for_each_stmt(kernel.body, [&](ir::Stmt& stmt) {
      auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load != nullptr && load->buffer == id) load->index[0] = load->index[0] - first;
    });
    nest.params[i].offset += first;
    nest.params[i].elements = nest.params[i].elements - first;
    buffer.shape = {index_expr(nest, nest.params[i].elements)};
  }
}

}  // namespace fusec::compiler

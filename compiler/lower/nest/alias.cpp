// SPDX-License-Identifier: Apache-2.0
// Lower: finds how the inputs of a region lie in memory. Some may share memory with one of its outputs; others begin at
// the first element that the kernel reads, so that regions on different slices of one value become one kernel. Runs on
// the semantic nest, before loops are scheduled.

#include <algorithm>
#include <limits>
#include <optional>

#include "compiler/lower/nest/nest.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

using ir::BufferId;
using ir::Stmt;

namespace {

// Replaces the loop variables of all phases of a row by those of the first.
IndexExpr without_phase(const LoopNest& nest, const IndexExpr& e) {
  std::map<ir::SymbolId, IndexExpr> first;
  for (const std::vector<VarId>& phases : nest.axis_vars)
    for (const VarId var : phases)
      if (var != phases[0]) first[var] = IndexExpr::symbol(phases[0]);
  return first.empty() ? e : e.substitute(first);
}

struct Accesses {
  std::vector<IndexExpr> indices;  // distinct, phases merged
  bool guarded = false, by_data = false;
  int first_store = std::numeric_limits<int>::max(), last_load = -1;  // positions in program order
};

void note(const LoopNest& nest, Accesses& a, const std::vector<IndexExpr>& index, const ir::Guard& guard,
          uint32_t clamp) {
  a.guarded = a.guarded || !guard.empty();
  a.by_data = a.by_data || clamp != 0 || index.size() != 1;
  const IndexExpr d = without_phase(nest, index[0]);
  if (std::find(a.indices.begin(), a.indices.end(), d) == a.indices.end()) a.indices.push_back(d);
}

// Whether distinct iterations write distinct elements: each stride equals the span of the smaller ones.
bool injective(const IndexExpr& index, const LoopNest& nest) {
  std::vector<ir::SymbolId> vars;
  for (const std::vector<VarId>& phases : nest.axis_vars) vars.push_back(phases[0]);
  const auto affine = affine_in(index, vars);
  if (!affine) return false;
  std::vector<std::pair<IndexExpr, IndexExpr>> axes;  // stride, extent
  for (size_t i = 0; i < vars.size(); ++i)
    axes.push_back({affine->coefficient(vars[i]), index_expr(nest, nest.domain.extents[i])});
  IndexExpr span = 1;
  while (!axes.empty()) {
    auto next = std::find_if(axes.begin(), axes.end(), [&](const auto& a) { return a.first == span; });
    if (next == axes.end()) return false;
    span = span * next->second;
    axes.erase(next);
  }
  return true;
}

}  // namespace

void find_aliases(LoopNest& nest) {
  ir::Kernel& k = nest.kernel;
  if (k.body.size() != 1) return;
  std::map<BufferId, Accesses> accesses;
  int position = 0;
  for_each_stmt(k.body, [&](Stmt& stmt) {
    ++position;
    if (auto* load = std::get_if<ir::Load>(&stmt.v)) {
      note(nest, accesses[load->buffer], load->index, load->guard, load->clamp);
      accesses[load->buffer].last_load = position;
    }
    if (auto* store = std::get_if<ir::Store>(&stmt.v)) {
      note(nest, accesses[store->buffer], store->index, store->guard, 0);
      accesses[store->buffer].first_store = std::min(accesses[store->buffer].first_store, position);
    }
  });
  const auto simple = [&](BufferId b) {
    const Accesses& a = accesses[b];
    return a.indices.size() == 1 && !a.guarded && !a.by_data;
  };
  for (BufferId out : k.params) {
    if (k.buffers[out].space != ir::Space::out || !simple(out)) continue;
    const IndexExpr& index = accesses[out].indices[0];
    if (!injective(index, nest)) continue;
    for (BufferId in : k.params)
      if (k.buffers[in].space == ir::Space::in && k.buffers[in].dtype == k.buffers[out].dtype && simple(in) &&
          accesses[in].indices[0] == index && accesses[in].last_load < accesses[out].first_store)
        k.may_alias.emplace_back(in, out);
  }
}

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

// SPDX-License-Identifier: Apache-2.0
// Lower: finds the inputs of a region that may share memory with one of its outputs. It runs on the semantic nest,
// before inputs are rebased and loops are scheduled.

#include "compiler/lower/nest/alias.h"

#include <algorithm>
#include <limits>

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

}  // namespace fusec::compiler

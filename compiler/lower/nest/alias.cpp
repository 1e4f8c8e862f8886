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

// Replaces the loop variables of all phases of a row by one: d1p0 and d1p2 become d1.
Dim without_phase(const Dim& d) {
  return d.substitute([](const std::string& s) -> std::optional<Dim> {
    const size_t p = s.find('p');
    if (s[0] != 'd' || p == std::string::npos) return std::nullopt;
    return Dim::symbol(s.substr(0, p));
  });
}

struct Accesses {
  std::vector<Dim> indices;  // distinct, phases merged
  bool guarded = false, by_data = false;
  int first_store = std::numeric_limits<int>::max(), last_load = -1;  // positions in program order
};

void note(Accesses& a, const std::vector<Dim>& index, const ir::Guard& guard, uint32_t clamp) {
  a.guarded = a.guarded || !guard.empty();
  a.by_data = a.by_data || clamp != 0 || index.size() != 1;
  const Dim d = without_phase(index[0]);
  if (std::find(a.indices.begin(), a.indices.end(), d) == a.indices.end()) a.indices.push_back(d);
}

// Whether distinct iterations write distinct elements: each stride equals the span of the smaller ones.
bool injective(const Dim& index, const Domain& domain) {
  const auto affine = affine_in(index, domain.vars);
  if (!affine) return false;
  std::vector<std::pair<Dim, Dim>> axes;  // stride, extent
  for (size_t i = 0; i < domain.vars.size(); ++i)
    axes.push_back({affine->coefficient(domain.vars[i]), domain.extents[i]});
  Dim span = 1;
  while (!axes.empty()) {
    auto next = std::find_if(axes.begin(), axes.end(), [&](const auto& a) { return a.first == span; });
    if (next == axes.end()) return false;
    span = span * next->second;
    axes.erase(next);
  }
  return true;
}

}  // namespace

void find_aliases(Nest& nest) {
  ir::Kernel& k = nest.kernel;
  if (k.body.size() != 1) return;
  std::map<BufferId, Accesses> accesses;
  int position = 0;
  for_each_stmt(k.body, [&](Stmt& stmt) {
    ++position;
    if (auto* load = std::get_if<ir::Load>(&stmt.v)) {
      note(accesses[load->buffer], load->index, load->guard, load->clamp);
      accesses[load->buffer].last_load = position;
    }
    if (auto* store = std::get_if<ir::Store>(&stmt.v)) {
      note(accesses[store->buffer], store->index, store->guard, 0);
      accesses[store->buffer].first_store = std::min(accesses[store->buffer].first_store, position);
    }
  });
  const auto simple = [&](BufferId b) {
    const Accesses& a = accesses[b];
    return a.indices.size() == 1 && !a.guarded && !a.by_data;
  };
  for (BufferId out : k.params) {
    if (k.buffers[out].space != ir::Space::out || !simple(out)) continue;
    const Dim& index = accesses[out].indices[0];
    if (!injective(index, nest.domain)) continue;
    for (BufferId in : k.params)
      if (k.buffers[in].space == ir::Space::in && k.buffers[in].dtype == k.buffers[out].dtype && simple(in) &&
          accesses[in].indices[0] == index && accesses[in].last_load < accesses[out].first_store)
        k.may_alias.emplace_back(in, out);
  }
}

}  // namespace fusec::compiler

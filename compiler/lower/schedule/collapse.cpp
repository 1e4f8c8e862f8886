// SPDX-License-Identifier: Apache-2.0
// Lower: orders pointwise loops by strides and merges loops that together walk every buffer evenly, before extents
// become arguments. It also takes perfect loop nests apart and puts them together.

#include <algorithm>
#include <optional>
#include <set>

#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"
#include "compiler/lower/schedule/schedule.h"

namespace fusec::compiler {

PerfectNest peel_loops(Stmt stmt) {
  PerfectNest nest;
  for (;;) {
    auto& loop = std::get<ir::Loop>(stmt.v);
    nest.heads.push_back(loop.head);
    if (loop.body.size() != 1 || !std::holds_alternative<ir::Loop>(loop.body[0].v)) {
      nest.body = std::move(loop.body);
      return nest;
    }
    Stmt inner = std::move(loop.body[0]);
    stmt = std::move(inner);
  }
}

Stmt rebuild_loops(const std::vector<LoopHead>& heads, Block body) {
  for (size_t i = heads.size(); i-- > 0;) {
    Block inner = std::move(body);
    body.clear();
    body.push_back({ir::Loop{heads[i], std::move(inner), ir::PhaseBoundary::launches}});
  }
  return std::move(body[0]);
}

namespace {

// Whether i * extent(j) + j can become one variable in every index expression of the block.
bool mergeable(Block& block, VarId i, const LoopHead& j) {
  bool ok = true;
  for_each_stmt(block, [&](Stmt& stmt) {
    for_each_index(stmt, [&](IndexExpr& d) {
      if (!ok || (!d.uses(i) && !d.uses(j.var))) return;
      const auto affine = affine_in(d, {i, j.var});
      ok = affine && affine->coefficient(i) == affine->coefficient(j.var) * j.extent;
    });
  });
  return ok;
}

// Merges loop i and the loop j inside it into one loop over j's variable.
void merge(Block& block, LoopHead& i, const LoopHead& j) {
  for_each_stmt(block, [&](Stmt& stmt) {
    for_each_index(stmt, [&](IndexExpr& d) {
      if (d.uses(i.var)) d = d.substitute({{i.var, 0}});
    });
  });
  i = {i.tag, j.var, i.extent * j.extent};
}

void collapse_heads(std::vector<LoopHead>& heads, Block& body) {
  for (size_t i = heads.size(); i-- > 1;) {
    if (!mergeable(body, heads[i - 1].var, heads[i])) continue;
    merge(body, heads[i - 1], heads[i]);
    heads.erase(heads.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// Takes a perfect loop nest apart, changes the heads, and puts it together again.
template <class F>
void with_perfect_nest(Stmt& stmt, F change) {
  PerfectNest nest = peel_loops(std::move(stmt));
  change(nest.heads, nest.body);
  stmt = rebuild_loops(nest.heads, std::move(nest.body));
}

const ir::Store* first_store(const Block& block) {
  const ir::Store* found = nullptr;
  for_each_stmt(block, [&](const Stmt& stmt) {
    if (found == nullptr) found = std::get_if<ir::Store>(&stmt.v);
  });
  return found;
}

bool is_pointwise(const Block& body) {
  return std::none_of(body.begin(), body.end(), [](const Stmt& s) { return !nested_blocks(s).empty(); });
}

// Sorts the first `count` loops so that outer loops have the larger strides of an access.
void sort_by_strides(std::vector<LoopHead>& heads, size_t count, const Affine& access) {
  std::stable_sort(heads.begin(), heads.begin() + static_cast<std::ptrdiff_t>(count),
                   [&](const LoopHead& a, const LoopHead& b) {
                     const IndexExpr d = access.coefficient(a.var) - access.coefficient(b.var);
                     return !(d == IndexExpr(0)) && proves_nonneg(d, {}) && !proves_nonneg(-d, {});
                   });
}

// The strides of the only load that moves with every loop; nullopt when there are several or they are not affine.
std::optional<Affine> full_load(const Block& body, const std::vector<ir::SymbolId>& vars) {
  std::optional<Affine> found;
  int count = 0;
  for_each_stmt(body, [&](const Stmt& stmt) {
    const auto* load = std::get_if<ir::Load>(&stmt.v);
    if (load == nullptr || load->index.size() != 1) return;
    if (!std::all_of(vars.begin(), vars.end(), [&](ir::SymbolId v) { return load->index[0].uses(v); })) return;
    found = affine_in(load->index[0], vars);
    ++count;
  });
  return count == 1 ? found : std::nullopt;
}

// Orders loops by the strides of the first store. If the innermost loop moves whole cache lines, the outer loops follow
// the strides of the load: lines may be stored in any order, while loads are prefetched along one walk.
void order_loops(std::vector<LoopHead>& heads, const Block& body, const ir::Kernel& kernel) {
  constexpr int64_t kLine = 64;
  const ir::Store* store = first_store(body);
  if (store == nullptr || store->index.size() != 1 || heads.size() < 2) return;
  std::vector<ir::SymbolId> vars;
  for (const LoopHead& head : heads) vars.push_back(head.var);
  const auto stored = affine_in(store->index[0], vars);
  if (!stored) return;
  sort_by_strides(heads, heads.size(), *stored);
  const LoopHead& inner = heads.back();
  const auto loaded = full_load(body, vars);
  if (!loaded || !loaded->coefficient(inner.var).is(1) || !stored->coefficient(inner.var).is(1)) return;
  const auto bytes = static_cast<int64_t>(size_of(kernel.buffers[store->buffer].dtype));
  if (inner.extent.is_const() && inner.extent.value() * bytes >= kLine)
    sort_by_strides(heads, heads.size() - 1, *loaded);
}

// The strides of the loads that most of the loops move. Of loads with several orders of strides, those decide that are
// the most bytes; of as many, those that the innermost loop walks element by element.
std::optional<Affine> widest_load(const Block& body, const ir::Kernel& kernel, const std::vector<ir::SymbolId>& vars) {
  struct Order {
    Affine strides;
    size_t bytes = 0;
  };
  std::map<std::optional<ir::SymbolId>, Order> orders;  // by the loop that walks element by element
  size_t most = 0;
  for_each_stmt(body, [&](const Stmt& stmt) {
    const auto* load = std::get_if<ir::Load>(&stmt.v);
    if (load == nullptr || load->index.size() != 1) return;
    const auto affine = affine_in(load->index[0], vars);
    if (!affine || affine->coefficients.size() < most) return;
    if (affine->coefficients.size() > most) orders.clear();
    most = affine->coefficients.size();
    std::optional<ir::SymbolId> inner;
    for (const auto& [var, stride] : affine->coefficients)
      if (stride.is(1)) inner = var;
    Order& order = orders.emplace(inner, Order{*affine, 0}).first->second;
    order.bytes += 2 * size_of(kernel.buffers[load->buffer].dtype) + (inner == vars.back() ? 1 : 0);
  });
  std::optional<Affine> found;
  size_t bytes = 0;
  for (const auto& [inner, order] : orders) {
    if (order.bytes <= bytes) continue;
    bytes = order.bytes;
    found = order.strides;
  }
  return found;
}

void collapse_inside(Block& block) {
  for (Stmt& stmt : block) {
    if (auto* reduce = std::get_if<ir::Reduce>(&stmt.v)) {
      collapse_heads(reduce->loops, reduce->body);
    } else if (std::holds_alternative<ir::Loop>(stmt.v)) {
      with_perfect_nest(stmt, collapse_heads);
    }
  }
}

}  // namespace

void order_by_memory(ir::Reduce& reduce, const ir::Kernel& kernel) {
  std::vector<ir::SymbolId> vars;
  for (const LoopHead& head : reduce.loops) vars.push_back(head.var);
  if (const auto strides = widest_load(reduce.body, kernel, vars)) sort_by_strides(reduce.loops, vars.size(), *strides);
  collapse_heads(reduce.loops, reduce.body);
}

void order_by_memory(PerfectNest& elements, const ir::Kernel& kernel) {
  order_loops(elements.heads, elements.body, kernel);
  collapse_heads(elements.heads, elements.body);
}

void collapse(LoopNest& nest) {
  for (Stmt& stmt : nest.kernel.body) {
    with_perfect_nest(stmt, [&](std::vector<LoopHead>& heads, Block& body) {
      if (is_pointwise(body)) order_loops(heads, body, nest.kernel);
      collapse_heads(heads, body);
      collapse_inside(body);
    });
  }
}

}  // namespace fusec::compiler

// SPDX-License-Identifier: Apache-2.0
// Lower for GPUs: finds the symbolic extents whose divisibility decides how wide a kernel's accesses are. Where it
// matters, the lower stage lists a variant for shapes that 16 bytes divide in front of the one for all shapes.

#include <algorithm>
#include <set>

#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"
#include "compiler/lower/schedule/schedule.h"
#include "ir/kernel/combiner.h"

namespace fusec::compiler {

namespace {

constexpr int64_t kWidestAccess = 16;  // bytes

// Calls f(statement, position of the parameter, index) for every access to an argument.
template <class F>
void for_each_access(const ir::Kernel& kernel, const F& f) {
  std::map<ir::BufferId, size_t> params;
  for (size_t i = 0; i < kernel.params.size(); ++i) params[kernel.params[i]] = i;
  const auto note = [&](const Stmt& stmt, ir::BufferId id, const std::vector<IndexExpr>& index) {
    if (const auto param = params.find(id); param != params.end()) f(stmt, param->second, index);
  };
  for_each_stmt(kernel.body, [&](const Stmt& stmt) {
    const auto* load = std::get_if<ir::Load>(&stmt.v);
    const auto* store = std::get_if<ir::Store>(&stmt.v);
    if (load != nullptr && load->clamp == 0) note(stmt, load->buffer, load->index);
    if (store != nullptr) note(stmt, store->buffer, store->index);
  });
}

// The extents of all loops.
std::map<ir::SymbolId, IndexExpr> collect_loops(const ir::Kernel& kernel) {
  std::map<ir::SymbolId, IndexExpr> extents;
  for_each_stmt(kernel.body, [&](const Stmt& stmt) {
    ir::for_each_head(stmt, [&](const LoopHead& head) { extents.emplace(head.var, head.extent); });
  });
  return extents;
}

bool is_over_extents(const IndexExpr& e) {
  std::set<ir::SymbolId> symbols;
  e.collect_symbols(symbols);
  return std::all_of(symbols.begin(), symbols.end(), [](ir::SymbolId s) { return s.extent().has_value(); });
}

struct Sum {
  ir::Combiner combiner;
  ir::Tree tree;
  std::vector<LoopHead> loops;
  bool operator==(const Sum&) const = default;
};

// The reductions whose order matters.
std::vector<Sum> collect_sums(const ir::Kernel& kernel) {
  std::vector<Sum> sums;
  for_each_stmt(kernel.body, [&](const Stmt& stmt) {
    if (const auto* scan = std::get_if<ir::Scan>(&stmt.v)) sums.push_back({scan->combiner, {}, {scan->loop}});
    const auto* reduce = std::get_if<ir::Reduce>(&stmt.v);
    if (reduce == nullptr || ir::is_order_free(reduce->combiner, kernel.regs[reduce->dst[0]].dtype)) return;
    sums.push_back({reduce->combiner, reduce->tree, reduce->loops});
  });
  return sums;
}

}  // namespace

std::vector<Dim> Alignment::when() const {
  std::vector<Dim> conditions;
  for (const Dim& extent : extents) conditions.push_back(-mod(extent, elements));
  return conditions;
}

Alignment find_alignment(const LoopNest& nest) {
  const ir::Kernel& kernel = nest.kernel;
  const std::map<ir::SymbolId, IndexExpr> loops = collect_loops(kernel);
  std::vector<ir::SymbolId> vars;
  for (const auto& [var, extent] : loops) vars.push_back(var);
  std::set<IndexExpr> extents;
  size_t widest = 1;
  Alignment found;
  for_each_access(kernel, [&](const Stmt&, size_t param, const std::vector<IndexExpr>& index) {
    const auto affine = affine_in(index.back(), vars);
    if (!affine) return;
    for (const auto& [var, coefficient] : affine->coefficients) {
      const IndexExpr& extent = loops.at(var);
      if (!coefficient.is(1) || extent.is_const() || !is_over_extents(extent)) continue;
      extents.insert(extent);
      found.params.insert(param);
      widest = std::max(widest, size_of(kernel.buffers[kernel.params[param]].dtype));
    }
  });
  found.elements = kWidestAccess / static_cast<int64_t>(widest);
  for (const IndexExpr& extent : extents)
    if (extent.known_divisor() % found.elements != 0) found.extents.push_back(named(kernel, extent));
  return found;
}

AccessWidths measure_accesses(const ir::Kernel& kernel, const std::set<size_t>& params) {
  AccessWidths widths;
  std::map<size_t, int> widest;
  for_each_access(kernel, [&](const Stmt& stmt, size_t param, const std::vector<IndexExpr>&) {
    if (!params.contains(param)) return;
    const int lanes = width_of(kernel, stmt);
    widest[param] = std::max(widest[param], lanes);
    widths.lanes += lanes;
  });
  for (const auto& [param, lanes] : widest)
    widths.narrowest = widths.narrowest == 0 ? lanes : std::min(widths.narrowest, lanes);
  return widths;
}

bool adds_alike(const ir::Kernel& a, const ir::Kernel& b) { return collect_sums(a) == collect_sums(b); }

}  // namespace fusec::compiler

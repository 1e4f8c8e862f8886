// SPDX-License-Identifier: Apache-2.0
// Lower: analyses of loop nests that the schedules of host and GPU share.

#include "compiler/lower/schedule/schedule.h"

#include <algorithm>

#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

std::map<ir::SymbolId, int64_t> find_expected_values(const std::vector<Dim>& launch) {
  std::map<ir::SymbolId, int64_t> expected_values;
  for (uint32_t i = 0; i < launch.size(); ++i)
    if (launch[i].is_const()) expected_values[ir::ExtentId{i}] = launch[i].value();
  return expected_values;
}

std::map<ir::SymbolId, int64_t> find_typical_values(const std::vector<Dim>& launch, const SymbolBindings& symbols) {
  std::map<ir::SymbolId, int64_t> values;
  for (uint32_t i = 0; i < launch.size(); ++i)
    if (const auto value = launch[i].eval(symbols)) values[ir::ExtentId{i}] = *value;
  return values;
}

std::optional<int64_t> typical_value(const Scheduling& s, const IndexExpr& count) {
  if (const auto known = count.eval(s.expected_values)) return known;
  return count.eval(s.typical);
}

bool has_many(const Scheduling& s, const IndexExpr& count, int64_t least, bool otherwise) {
  if (const auto value = typical_value(s, count)) return *value >= least;
  s.questions.push_back({count, least});
  return s.has_many.value_or(otherwise);
}

int64_t known_extent(const Scheduling& s, const IndexExpr& extent, int64_t otherwise) {
  if (extent.is_const()) return extent.value();
  const auto symbol = extent.as_symbol();
  const auto expected = symbol ? s.expected_values.find(*symbol) : s.expected_values.end();
  return expected == s.expected_values.end() ? otherwise : expected->second;
}

bool has_reduction(const Block& block) {
  bool found = false;
  for_each_stmt(block, [&](const Stmt& stmt) {
    found = found || std::holds_alternative<ir::Reduce>(stmt.v) || std::holds_alternative<ir::Scan>(stmt.v);
  });
  return found;
}

std::vector<ir::SymbolId> collect_vars(const std::vector<LoopHead>& heads) {
  std::vector<ir::SymbolId> vars;
  for (const LoopHead& head : heads) vars.push_back(head.var);
  return vars;
}

namespace {

bool is_moved_by(const ir::Load& load, const std::vector<LoopHead>& loops) {
  return std::any_of(load.index.begin(), load.index.end(), [&](const IndexExpr& d) {
    return std::any_of(loops.begin(), loops.end(), [&](const LoopHead& head) { return d.uses(head.var); });
  });
}

}  // namespace

std::optional<VarId> columns_along(const PerfectNest& nest) {
  int rows = 0;
  std::map<ir::SymbolId, int> columns;
  const auto outer = collect_vars(nest.heads);
  for (const Stmt& stmt : nest.body) {
    const auto* reduce = std::get_if<ir::Reduce>(&stmt.v);
    if (reduce == nullptr || reduce->loops.empty()) continue;
    auto vars = outer;
    for (const LoopHead& head : reduce->loops) vars.push_back(head.var);
    for_each_stmt(reduce->body, [&](const Stmt& inner) {
      const auto* load = std::get_if<ir::Load>(&inner.v);
      if (load == nullptr || load->index.empty()) return;
      const auto affine = affine_in(load->index.back(), vars);
      if (!affine || !is_moved_by(*load, reduce->loops)) return;
      // The weight is the number of loops that move the load: a load that spans rows and columns counts for more than a
      // vector along one of them.
      const auto weight = static_cast<int>(affine->coefficients.size());
      if (affine->coefficient(vars.back()).is(1)) rows += weight;
      for (const ir::SymbolId v : outer)
        if (affine->coefficient(v).is(1)) columns[v] += weight;
    });
  }
  std::optional<ir::SymbolId> best;
  for (const auto& [var, count] : columns)
    if (count > rows && (!best || count > columns[*best])) best = var;
  return best ? best->var() : std::nullopt;
}

namespace {

bool worth_tiling(const IndexExpr& extent) { return !extent.is_const() || extent.value() >= 8; }

}  // namespace

std::optional<VarId> strided_across(const PerfectNest& nest) {
  const auto vars = collect_vars(nest.heads);
  const ir::SymbolId inner = vars.back();
  std::optional<VarId> across;
  for_each_stmt(nest.body, [&](const Stmt& stmt) {
    const auto* load = std::get_if<ir::Load>(&stmt.v);
    if (load == nullptr || load->index.size() != 1 || !load->guard.empty()) return;
    const auto affine = affine_in(load->index[0], vars);
    if (!affine || affine->coefficient(inner).is(0) || affine->coefficient(inner).is(1)) return;
    for (const LoopHead& head : nest.heads)
      if (affine->coefficient(head.var).is(1) && worth_tiling(head.extent)) across = head.var;
  });
  return worth_tiling(nest.heads.back().extent) ? across : std::nullopt;
}

const ir::Scan* lone_scan(const PerfectNest& nest) {
  if (nest.body.size() != 1 || nest.heads.empty()) return nullptr;
  const auto* scan = std::get_if<ir::Scan>(&nest.body[0].v);
  if (scan == nullptr) return nullptr;
  const auto is_plain = [](const Stmt& stmt) {
    return std::holds_alternative<ir::Load>(stmt.v) || std::holds_alternative<ir::Let>(stmt.v) ||
           std::holds_alternative<ir::Store>(stmt.v) || std::holds_alternative<ir::IndexValue>(stmt.v);
  };
  const bool plain = std::all_of(scan->body.begin(), scan->body.end(), is_plain) &&
                     std::all_of(scan->then.begin(), scan->then.end(), is_plain);
  return plain ? scan : nullptr;
}

std::optional<size_t> scan_column(const PerfectNest& nest, const ir::Scan& scan) {
  auto vars = collect_vars(nest.heads);
  vars.push_back(scan.loop.var);
  for (const Stmt& stmt : scan.then) {
    const auto* store = std::get_if<ir::Store>(&stmt.v);
    if (store == nullptr || store->index.empty()) continue;
    const auto affine = affine_in(store->index.back(), vars);
    if (!affine) continue;
    if (affine->coefficient(scan.loop.var).is(1)) return std::nullopt;
    for (size_t i = 0; i < nest.heads.size(); ++i)
      if (affine->coefficient(nest.heads[i].var).is(1)) return i;
  }
  return std::nullopt;
}

}  // namespace fusec::compiler

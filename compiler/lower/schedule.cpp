// SPDX-License-Identifier: Apache-2.0
#include "compiler/lower/schedule.h"

#include <algorithm>

#include "compiler/lower/rewrite.h"

namespace fusec::compiler {

using ir::Block;
using ir::LoopHead;
using ir::Stmt;

namespace {

bool has_reduction(const Block& block) {
  bool found = false;
  for_each_stmt(block, [&](const Stmt& stmt) {
    found = found || std::holds_alternative<ir::Reduce>(stmt.v) || std::holds_alternative<ir::Scan>(stmt.v);
  });
  return found;
}

std::vector<std::string> vars_of(const std::vector<LoopHead>& heads) {
  std::vector<std::string> vars;
  for (const LoopHead& head : heads) vars.push_back(head.var);
  return vars;
}

bool worth_tiling(const Dim& extent) { return !extent.is_const() || extent.value() >= 8; }

// The loop along which some load is contiguous while it strides along the innermost loop; empty: none.
std::string strided_across(const PerfectNest& nest) {
  const auto vars = vars_of(nest.heads);
  const std::string& inner = vars.back();
  std::string across;
  for_each_stmt(nest.body, [&](const Stmt& stmt) {
    const auto* load = std::get_if<ir::Load>(&stmt.v);
    if (load == nullptr || load->index.size() != 1 || !load->guard.empty()) return;
    const auto affine = affine_in(load->index[0], vars);
    if (!affine || affine->coefficient(inner).is(0) || affine->coefficient(inner).is(1)) return;
    for (const LoopHead& head : nest.heads)
      if (affine->coefficient(head.var).is(1) && worth_tiling(head.extent)) across = head.var;
  });
  return worth_tiling(nest.heads.back().extent) ? across : "";
}

// Bodies of fewer statements run two vectors at a time, of what they store too: memory is quicker by some 5 % when each
// array is visited for two cache lines in a row.
constexpr size_t kShortBody = 24;
// An op of this cost is a chain of dependent multiplications: four vectors at a time fill the waits of one.
constexpr int kLongChain = 9;

}  // namespace

int64_t known_extent(const HostSchedule& s, const Dim& extent, int64_t otherwise) {
  if (extent.is_const()) return extent.value();
  const auto name = extent.as_symbol();
  const auto hint = name ? s.hints.find(*name) : s.hints.end();
  return hint == s.hints.end() ? otherwise : hint->second;
}

int lanes_in_flight(const HostSchedule& s, const Block& body, const Dim& extent) {
  const int vector = lanes_for(s.kernel, body, s.target);
  int64_t narrowest = 8;  // bytes of what is stored
  int cost = 0;           // of the dearest op
  for_each_stmt(body, [&](const Stmt& stmt) {
    if (const auto* store = std::get_if<ir::Store>(&stmt.v))
      narrowest = std::min(narrowest, static_cast<int64_t>(size_of(s.kernel.buffers[store->buffer].dtype)));
    if (const auto* let = std::get_if<ir::Let>(&stmt.v)) cost = std::max(cost, info(let->op).cost);
  });
  int wanted = body.size() < kShortBody ? 2 * vector : vector;
  if (body.size() < kShortBody && wanted * narrowest < 2 * s.target.vector_bytes) wanted *= 2;
  if (cost >= kLongChain) wanted = std::max(wanted, 4 * vector);
  const int64_t known = known_extent(s, extent, kTaskElements);
  while (wanted > vector && known < 2 * wanted) wanted /= 2;
  return wanted;
}

std::string columns_along(const PerfectNest& nest) {
  int rows = 0;
  std::map<std::string, int> columns;
  const auto outer = vars_of(nest.heads);
  for (const Stmt& stmt : nest.body) {
    const auto* reduce = std::get_if<ir::Reduce>(&stmt.v);
    if (reduce == nullptr || reduce->loops.empty()) continue;
    auto vars = outer;
    for (const LoopHead& head : reduce->loops) vars.push_back(head.var);
    for_each_stmt(reduce->body, [&](const Stmt& inner) {
      const auto* load = std::get_if<ir::Load>(&inner.v);
      if (load == nullptr || load->index.size() != 1) return;
      const auto affine = affine_in(load->index[0], vars);
      if (!affine) return;
      if (affine->coefficient(vars.back()).is(1)) ++rows;
      for (const std::string& v : outer)
        if (affine->coefficient(v).is(1)) ++columns[v];
    });
  }
  std::string best;
  for (const auto& [var, count] : columns)
    if (count > rows && (best.empty() || count > columns[best])) best = var;
  return best;
}

Status schedule_host(Nest& nest, const Target& target, const std::vector<Dim>& launch) {
  std::map<std::string, int64_t> hints;
  for (size_t i = 0; i < launch.size(); ++i)
    if (launch[i].is_const()) hints[nest.kernel.extents[i]] = launch[i].value();
  const HostSchedule s{nest.kernel, target, hints};
  Block result;
  Block body = std::move(nest.kernel.body);
  nest.kernel.body.clear();
  for (Stmt& stmt : body) {
    PerfectNest loops = take_nest(std::move(stmt));
    Block scheduled;
    if (auto mixed = schedule_interleave(s, loops)) {
      scheduled = std::move(*mixed);
    } else if (!has_reduction(loops.body)) {
      const std::string across = strided_across(loops);
      scheduled = across.empty() ? schedule_pointwise(s, std::move(loops)) : schedule_transpose(s, std::move(loops), across);
    } else if (auto chunks = schedule_column_chunks(s, loops)) {
      scheduled = std::move(*chunks);
    } else {
      const std::string along = columns_along(loops);
      scheduled = along.empty() ? schedule_rows(s, std::move(loops)) : schedule_columns(s, std::move(loops), along);
    }
    for (Stmt& inner : scheduled) result.push_back(std::move(inner));
  }
  nest.kernel.body = std::move(result);
  give_own_vars(nest.kernel);  // parts of one loop have kept its name
  clean_up(nest.kernel);
  return {};
}

}  // namespace fusec::compiler

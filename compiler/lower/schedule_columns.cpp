// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "compiler/lower/rewrite.h"
#include "compiler/lower/schedule.h"

namespace fusec::compiler {

using ir::Block;
using ir::BufferId;
using ir::LoopHead;
using ir::LoopTag;
using ir::RegId;
using ir::ScalarOp;
using ir::Stmt;

namespace {

// Rows per chunk, by the number of rows alone: at most 64 chunks of at least 64 rows.
int64_t chunk_rows(int64_t rows) { return std::max<int64_t>(64, (rows + 63) / 64); }

// From here on a column reduction is a stream of rows rather than strips of columns: chunks of rows fill threads evenly,
// and a thread finds the rows that it made itself.
constexpr int64_t kManyRows = 512;
// Columns of one chunk's partial sums stay in the first-level cache.
constexpr int64_t kMostColumns = 4096;

struct Pattern {
  LoopHead columns;  // the innermost loop; those around it are of independent reductions
  const ir::Reduce* reduce = nullptr;
};

int64_t known_extent(const HostSchedule& s, const Dim& d) {
  if (d.is_const()) return d.value();
  const auto name = d.as_symbol();
  const auto hint = name ? s.hints.find(*name) : s.hints.end();
  return hint == s.hints.end() ? kMostColumns + 1 : hint->second;
}

// One reduction over one loop, then only element-wise work on its result; contiguous along the columns.
std::optional<Pattern> match(const HostSchedule& s, const PerfectNest& nest) {
  Pattern p;
  if (columns_along(nest) != nest.heads.back().var) return std::nullopt;
  p.columns = nest.heads.back();
  for (const Stmt& stmt : nest.body) {
    if (std::holds_alternative<ir::Alloc>(stmt.v)) return std::nullopt;
    if (std::holds_alternative<ir::Loop>(stmt.v) || std::holds_alternative<ir::Scan>(stmt.v)) return std::nullopt;
    if (const auto* reduce = std::get_if<ir::Reduce>(&stmt.v)) {
      if (p.reduce != nullptr) return std::nullopt;
      p.reduce = reduce;
    } else if (p.reduce == nullptr) {
      return std::nullopt;
    }
  }
  const bool fits = p.reduce != nullptr && p.reduce->combiner == ir::Combiner::add && p.reduce->loops.size() == 1 &&
                    p.reduce->loops[0].extent.is_const() && p.reduce->loops[0].extent.value() >= kManyRows &&
                    known_extent(s, p.columns.extent) <= kMostColumns;
  return fits ? std::optional(p) : std::nullopt;
}

}  // namespace

std::optional<Block> schedule_column_chunks(const HostSchedule& s, const PerfectNest& nest) {
  const auto p = match(s, nest);
  if (!p) return std::nullopt;
  ir::Kernel& k = s.kernel;
  const LoopHead rows = p->reduce->loops[0];
  const int64_t n = rows.extent.value(), chunk = chunk_rows(n), chunks = (n + chunk - 1) / chunk;
  const DType dtype = k.regs[p->reduce->dst[0]].dtype;
  const Dim columns = p->columns.extent;
  std::vector<LoopHead> outer(nest.heads.begin(), nest.heads.end() - 1);
  Shape shape;
  for (const LoopHead& head : outer) shape.push_back(head.extent);
  shape.insert(shape.end(), {chunks, columns});
  const BufferId partial = add_buffer(k, {"partial", ir::Space::scratch, dtype, shape, {}, 0, ""});
  const auto partial_at = [&outer](const Dim& chunk_index, const Dim& column) {
    std::vector<Dim> index;
    for (const LoopHead& head : outer) index.push_back(Dim::symbol(head.var));
    index.insert(index.end(), {chunk_index, column});
    return index;
  };
  const BufferId sums = add_buffer(k, {"sums", ir::Space::reg, dtype, {columns}, {}, 0, ""});
  const int lanes = 2 * lanes_for(k, p->reduce->body, s.target);
  const bool whole = divisible_by(k, columns, lanes);
  const std::string g = fresh_var(k);

  // Phase 1: sums of one chunk of rows, row by row.
  Block task;
  task.push_back({ir::Alloc{sums}});
  const std::string c0 = fresh_var(k);
  Block clear;
  clear.push_back({ir::Store{sums, {Dim::symbol(c0)}, is_float(dtype) ? ir::float_constant(dtype, 0) : ir::int_constant(dtype, 0), {}, ir::StoreHint::none}});
  for (Stmt& stmt : vector_loops(k, clear, c0, 0, columns, lanes, whole)) task.push_back(std::move(stmt));
  const std::string r = fresh_var(k);
  Block body = p->reduce->body;
  const Dim column = Dim::symbol(p->columns.var);
  const RegId before = add_reg(k, dtype), after = add_reg(k, dtype);
  body.push_back({ir::Load{before, sums, {column}, {}, ir::Constant{dtype}, 0}});
  body.push_back({ir::Let{after, ScalarOp::add, {before, p->reduce->yield[0]}}});
  body.push_back({ir::Store{sums, {column}, after, {}, ir::StoreHint::none}});
  substitute(body, rows.var, Dim(chunk) * Dim::symbol(g) + Dim::symbol(r));
  Block row = vector_loops(k, body, p->columns.var, 0, columns, lanes, whole);
  const Dim length = n % chunk == 0 ? Dim(chunk) : min(chunk, Dim(n) - Dim(chunk) * Dim::symbol(g));
  task.push_back({ir::Loop{{LoopTag::seq, r, length}, std::move(row), ir::Boundary::launches}});
  const std::string c1 = fresh_var(k);
  Block publish;
  const RegId sum = add_reg(k, dtype);
  publish.push_back({ir::Load{sum, sums, {Dim::symbol(c1)}, {}, ir::Constant{dtype}, 0}});
  publish.push_back({ir::Store{partial, partial_at(Dim::symbol(g), Dim::symbol(c1)), sum, {}, ir::StoreHint::none}});
  for (Stmt& stmt : vector_loops(k, publish, c1, 0, columns, lanes, whole)) task.push_back(std::move(stmt));
  Block result;
  result.push_back({ir::Alloc{partial}});
  std::vector<LoopHead> tasks = outer;
  for (LoopHead& head : tasks) head.tag = LoopTag::grid;
  tasks.push_back({LoopTag::grid, g, chunks});
  result.push_back(put_nest(tasks, std::move(task)));

  // Phase 2: sums of the chunks in order, and what follows.
  PerfectNest second{nest.heads, {}};
  for (const Stmt& stmt : nest.body) {
    const auto* reduce = std::get_if<ir::Reduce>(&stmt.v);
    if (reduce == nullptr) {
      second.body.push_back(stmt);
      continue;
    }
    ir::Reduce total{reduce->dst, reduce->combiner, {}, {{LoopTag::seq, fresh_var(k), chunks}}, {}, {}, {}};
    const RegId part = add_reg(k, dtype);
    total.body.push_back({ir::Load{part, partial, partial_at(Dim::symbol(total.loops[0].var), column), {}, ir::Constant{dtype}, 0}});
    total.yield = {part};
    second.body.push_back({std::move(total)});
  }
  for (Stmt& stmt : schedule_columns(s, std::move(second), p->columns.var)) result.push_back(std::move(stmt));
  return result;
}

}  // namespace fusec::compiler

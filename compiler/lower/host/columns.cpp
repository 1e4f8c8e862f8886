// SPDX-License-Identifier: Apache-2.0
// Lower for the host: schedules a column reduction with few columns and many rows as partial sums of chunks of rows,
// then their sum. The chunks depend on the number of rows alone, so that threads do not affect results.

#include <algorithm>

#include "compiler/lower/host/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

using ir::ScalarOp;

namespace {

// The rows per chunk, by the number of rows alone: at most 64 chunks of equal size, of about 16 rows or more.
int64_t chunk_rows(int64_t rows) {
  const int64_t chunks = std::min<int64_t>(64, (rows + 15) / 16);
  return (rows + chunks - 1) / chunks;
}

// From this number of rows on, a column reduction is split into chunks of rows, not into strips of columns. Chunks fill
// threads evenly, and a thread finds in its cache the rows that it computed itself.
constexpr int64_t kManyRows = 32;
// Up to this number of columns, the partial sums of one chunk stay in the first-level cache.
constexpr int64_t kMaxColumns = 4096;
// A chunk of at most this many bytes is summed in registers, one strip of columns after another, because its rows stay
// in the second-level cache. A larger one is streamed row by row into sums in memory. Each column is summed in the same
// order.
constexpr int64_t kStripBytes = 256 << 10;

struct Pattern {
  LoopHead columns;  // the innermost loop; loops around it run independent reductions
  const ir::Reduce* reduce = nullptr;
};

// Matches one reduction over one loop, then only element-wise work on its result, with loads that are contiguous along
// the columns.
std::optional<Pattern> match(const Scheduling& s, const PerfectNest& nest) {
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
                    known_extent(s, p.columns.extent, kMaxColumns + 1) <= kMaxColumns;
  return fits ? std::optional(p) : std::nullopt;
}

class ColumnChunks {
 public:
  ColumnChunks(const Scheduling& s, const PerfectNest& nest, Pattern pattern)
      : s_(s),
        k_(s.kernel),
        nest_(nest),
        p_(std::move(pattern)),
        rows_(p_.reduce->loops[0]),
        outer_(nest.heads.begin(), nest.heads.end() - 1),
        g_(add_var(k_)) {
    n_ = rows_.extent.value();
    chunk_ = chunk_rows(n_);
    chunks_ = (n_ + chunk_ - 1) / chunk_;
    dtype_ = k_.regs[p_.reduce->dst[0]].dtype;
    ir::IndexShape shape;
    for (const LoopHead& head : outer_) shape.push_back(head.extent);
    shape.insert(shape.end(), {chunks_, columns()});
    partial_ = add_buffer(k_, {"partial", ir::Space::scratch, dtype_, shape, {}, 0, ""});
  }

  Block run() {
    std::vector<LoopHead> tasks = outer_;
    for (LoopHead& head : tasks) head.tag = LoopTag::grid;
    tasks.push_back({LoopTag::grid, g_, chunks_});
    const int64_t bytes = chunk_ * known_extent(s_, columns(), kMaxColumns + 1) * static_cast<int64_t>(size_of(dtype_));
    Block result;
    result.push_back({ir::Alloc{partial_}});
    result.push_back(rebuild_loops(tasks, bytes <= kStripBytes ? strips() : streamed()));
    append(result, totals());
    return result;
  }

 private:
  const IndexExpr& columns() const { return p_.columns.extent; }
  IndexExpr column() const { return IndexExpr::symbol(p_.columns.var); }
  IndexExpr length() const {
    return n_ % chunk_ == 0 ? IndexExpr(chunk_)
                            : min(chunk_, IndexExpr(n_) - IndexExpr(chunk_) * IndexExpr::symbol(g_));
  }

  std::vector<IndexExpr> partial_at(const IndexExpr& chunk, const IndexExpr& column) const {
    std::vector<IndexExpr> index;
    for (const LoopHead& head : outer_) index.push_back(IndexExpr::symbol(head.var));
    index.insert(index.end(), {chunk, column});
    return index;
  }

  // Runs `body` over vectors of columns.
  Block over_columns(const Block& body, VarId var, int unroll) {
    const int lanes = lanes_for(k_, p_.reduce->body, s_.target, unroll);
    return vector_loops(k_, body, var, 0, columns(), lanes, divisible_by(k_, columns(), lanes));
  }

  // The body of the reduction at row `row` of the chunk.
  Block addend(VarId row) const {
    Block body = p_.reduce->body;
    substitute(body, rows_.var, IndexExpr(chunk_) * IndexExpr::symbol(g_) + IndexExpr::symbol(row));
    return body;
  }

  // Sums one chunk, a strip of columns at a time.
  Block strips() {
    const VarId r = add_var(k_);
    const RegId sum = add_reg(k_, dtype_);
    Block body;
    body.push_back(
        {ir::Reduce{{sum}, ir::Combiner::add, {}, {{LoopTag::seq, r, length()}}, addend(r), p_.reduce->yield, {}}});
    body.push_back({ir::Store{partial_, partial_at(IndexExpr::symbol(g_), column()), sum, {}, ir::StoreHint::none}});
    const int64_t base = lanes_for(k_, p_.reduce->body, s_.target),
                  known = known_extent(s_, columns(), kMaxColumns + 1);
    return over_columns(body, p_.columns.var, known >= 4 * base ? 4 : known >= 2 * base ? 2 : 1);
  }

  // Sums one chunk, row by row.
  Block streamed() {
    const BufferId sums = add_buffer(k_, {"sums", ir::Space::reg, dtype_, {columns()}, {}, 0, ""});
    const VarId c0 = add_var(k_), r = add_var(k_), c1 = add_var(k_);
    Block task, clear, publish, body = addend(r);
    task.push_back({ir::Alloc{sums}});
    clear.push_back({ir::Store{sums,
                               {IndexExpr::symbol(c0)},
                               is_float(dtype_) ? ir::float_constant(dtype_, 0) : ir::int_constant(dtype_, 0),
                               {},
                               ir::StoreHint::none}});
    append(task, over_columns(clear, c0, 2));
    const RegId before = add_reg(k_, dtype_), after = add_reg(k_, dtype_), sum = add_reg(k_, dtype_);
    body.push_back({ir::Load{before, sums, {column()}, {}, ir::Constant{dtype_}, 0}});
    body.push_back({ir::Let{after, ScalarOp::add, {before, p_.reduce->yield[0]}}});
    body.push_back({ir::Store{sums, {column()}, after, {}, ir::StoreHint::none}});
    Block rows = over_columns(body, p_.columns.var, 2);
    task.push_back({ir::Loop{{LoopTag::seq, r, length()}, std::move(rows), ir::PhaseBoundary::launches}});
    publish.push_back({ir::Load{sum, sums, {IndexExpr::symbol(c1)}, {}, ir::Constant{dtype_}, 0}});
    publish.push_back(
        {ir::Store{partial_, partial_at(IndexExpr::symbol(g_), IndexExpr::symbol(c1)), sum, {}, ir::StoreHint::none}});
    append(task, over_columns(publish, c1, 2));
    return task;
  }

  // Sums the chunks in order and runs the rest of the body.
  Block totals() {
    PerfectNest second{nest_.heads, {}};
    for (const Stmt& stmt : nest_.body) {
      const auto* reduce = std::get_if<ir::Reduce>(&stmt.v);
      if (reduce == nullptr) {
        second.body.push_back(stmt);
        continue;
      }
      const VarId c = add_var(k_);
      ir::Reduce total{reduce->dst, reduce->combiner, {}, {{LoopTag::seq, c, chunks_}}, {}, {}, {}};
      const RegId part = add_reg(k_, dtype_);
      total.body.push_back(
          {ir::Load{part, partial_, partial_at(IndexExpr::symbol(c), column()), {}, ir::Constant{dtype_}, 0}});
      total.yield = {part};
      second.body.push_back({std::move(total)});
    }
    return schedule_columns(s_, std::move(second), p_.columns.var);
  }

  const Scheduling& s_;
  ir::Kernel& k_;
  const PerfectNest& nest_;
  Pattern p_;
  LoopHead rows_;
  std::vector<LoopHead> outer_;
  VarId g_;
  int64_t n_ = 0, chunk_ = 0, chunks_ = 0;
  DType dtype_ = DType::f32;
  BufferId partial_;
};

}  // namespace

std::optional<Block> schedule_column_chunks(const Scheduling& s, const PerfectNest& nest) {
  auto pattern = match(s, nest);
  if (!pattern) return std::nullopt;
  return ColumnChunks(s, nest, std::move(*pattern)).run();
}

}  // namespace fusec::compiler

// SPDX-License-Identifier: Apache-2.0
// Lower for the host: schedules column reductions with many rows, which are combined in chunks. Where there are few
// tasks otherwise, the chunks are tasks of a phase of their own. They depend on the number of rows alone, so that
// neither the number of columns nor that of threads affects results.

#include <algorithm>
#include <optional>
#include <utility>

#include "compiler/lower/host/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"
#include "ir/kernel/combiner.h"

namespace fusec::compiler {

using ir::ScalarOp;

namespace {

// At most so many chunks, of about kMinRows rows or more, by the number of rows alone.
constexpr int64_t kMaxChunks = 64, kMinRows = 16;
// From this number of rows on, a column reduction is split into chunks of rows, not into strips of columns. Chunks fill
// threads evenly, and a thread finds in its cache the rows that it computed itself.
constexpr int64_t kManyRows = 32;
// Up to this number of columns, the results of one chunk stay in the first-level cache. More are cut into blocks.
constexpr int64_t kMaxColumns = 4096, kColumnBlock = 2048;
// The results of up to this number of columns stay in registers.
constexpr int64_t kStripColumns = 64;
// Results of chunks are combined in levels of this number, or up to twice as many at once.
constexpr int64_t kLevel = 8;
// A chunk of at most this many bytes is reduced in registers, one strip of columns after another, because its rows stay
// in the second-level cache. A larger one is streamed row by row into results in memory. Each column is reduced in the
// same order.
constexpr int64_t kStripBytes = 256 << 10;

struct Pattern {
  LoopHead columns;  // the innermost loop; loops around it run independent reductions
  const ir::Reduce* reduce = nullptr;
};

int64_t count_rows(const ir::Reduce& reduce) {
  int64_t rows = 1;
  for (const LoopHead& head : reduce.loops) rows *= head.extent.is_const() ? head.extent.value() : 0;
  return rows;
}

// Matches one reduction of single values, then only element-wise work on its result, with loads that are contiguous
// along the columns.
std::optional<Pattern> match(const PerfectNest& nest) {
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
  const bool fits = p.reduce != nullptr && tuple_size(p.reduce->combiner) == 1 && p.reduce->guard.empty() &&
                    count_rows(*p.reduce) >= kManyRows;
  return fits ? std::optional(p) : std::nullopt;
}

class ColumnChunks {
 public:
  ColumnChunks(const Scheduling& s, const PerfectNest& nest, Pattern pattern)
      : s_(s),
        k_(s.kernel),
        nest_(nest),
        p_(std::move(pattern)),
        op_(combining_op(p_.reduce->combiner)),
        dtype_(k_.regs[p_.reduce->dst[0]].dtype),
        outer_(nest.heads.begin(), nest.heads.end() - 1) {
    body_ = p_.reduce->body;
    cut_rows();
  }

  Block run() { return few_rows(s_, outer_, true) ? phases() : whole(); }

 private:
  const IndexExpr& columns() const { return p_.columns.extent; }
  Block rest() const { return Block(nest_.body.begin() + 1, nest_.body.end()); }
  int64_t known_columns() const { return known_extent(s_, columns(), kMaxColumns + 1); }

  // Outer loops of the rows run over chunks as long as that leaves enough rows in a chunk; the next loop is cut.
  void cut_rows() {
    const std::vector<LoopHead>& loops = p_.reduce->loops;
    int64_t rest = count_rows(*p_.reduce), chunks = 1;
    const int64_t wanted = std::min(kMaxChunks, (rest + kMinRows - 1) / kMinRows);
    for (size_t i = 0; i < loops.size(); ++i) {
      const int64_t extent = loops[i].extent.value();
      rest /= extent;
      if (i + 1 < loops.size() && chunks * extent <= wanted) {
        over_.push_back(loops[i]);
        chunks *= extent;
        continue;
      }
      const int64_t most = std::max<int64_t>(1, wanted / chunks);
      const auto [g, r] = cut(loops[i], (extent + most - 1) / most, body_, inside_);
      over_.push_back(g);
      inside_.push_back(r);
      inside_.insert(inside_.end(), loops.begin() + static_cast<std::ptrdiff_t>(i) + 1, loops.end());
      chunk_rows_ = (extent + most - 1) / most * rest;
      return;
    }
  }

  // A loop as a loop over pieces of `size` iterations and one inside of a piece, with its variable replaced in `block`
  // and in the extents of `loops`.
  std::pair<LoopHead, LoopHead> cut(const LoopHead& loop, int64_t size, Block& block, std::vector<LoopHead>& loops) {
    const VarId g = add_var(k_), r = add_var(k_);
    const IndexExpr first = IndexExpr(size) * IndexExpr::symbol(g);
    const bool even = divisible_by(k_, loop.extent, size);
    substitute(block, loop.var, first + IndexExpr::symbol(r));
    for (LoopHead& other : loops) other.extent = other.extent.substitute({{loop.var, first + IndexExpr::symbol(r)}});
    return {{LoopTag::seq, g, ceildiv(loop.extent, size)},
            {LoopTag::seq, r, even ? IndexExpr(size) : min(size, loop.extent - first)}};
  }

  Block in_tasks(std::vector<LoopHead> tasks, Block body) {
    if (tasks.empty()) tasks.push_back({LoopTag::grid, add_var(k_), 1});
    for (LoopHead& head : tasks) head.tag = LoopTag::grid;
    Block result;
    result.push_back(rebuild_loops(tasks, std::move(body)));
    return result;
  }

  // Runs `body` over vectors of the columns of a task.
  Block over_columns(const Block& body, VarId var, int unroll) {
    const int lanes = lanes_for(k_, p_.reduce->body, s_.target, unroll);
    return vector_loops(k_, body, var, 0, columns(), lanes, divisible_by(k_, columns(), lanes));
  }

  Block over_columns(const Block& body) {
    const int64_t base = lanes_for(k_, p_.reduce->body, s_.target), known = known_columns();
    return over_columns(body, p_.columns.var, known >= 4 * base ? 4 : known >= 2 * base ? 2 : 1);
  }

  // The loops over chunks, as levels of few chunks each, in the place of over_ in `block` and in `inside`.
  std::vector<LoopHead> chunk_levels(Block& block, std::vector<LoopHead> inside) {
    std::vector<LoopHead> levels;
    for (const LoopHead& head : over_) {
      const int64_t size = head.extent.value() > 2 * kLevel ? kLevel : head.extent.value();
      const auto [outer, inner] = cut(head, size, block, inside);
      levels.insert(levels.end(), {outer, inner});
    }
    levels.insert(levels.end(), inside.begin(), inside.end());
    return levels;
  }

  // `body`, which yields `value`, reduced over loops that are a level each; the result is in `result`.
  Block reduced(const std::vector<LoopHead>& loops, Block body, Operand value, RegId result) {
    for (size_t i = loops.size(); i-- > 0;) {
      const RegId dst = i == 0 ? result : add_reg(k_, dtype_);
      ir::Reduce level{{dst}, p_.reduce->combiner, {}, {loops[i]}, std::move(body), {value}, {}};
      body.clear();
      body.push_back({std::move(level)});
      value = dst;
    }
    return body;
  }

  // --- few tasks: the chunks are tasks of a first phase ---------------------------------------------------------

  Block phases() {
    IndexExpr chunks = 1, chunk = 0;
    for (const LoopHead& head : over_) {
      chunks *= head.extent;
      chunk = chunk * head.extent + IndexExpr::symbol(head.var);
    }
    ir::IndexShape shape;
    for (const LoopHead& head : outer_) {
      shape.push_back(head.extent);
      partial_index_.push_back(IndexExpr::symbol(head.var));
    }
    shape.insert(shape.end(), {chunks, columns()});
    partial_index_.push_back(chunk);
    partial_ = add_buffer(k_, {"partial", ir::Space::scratch, dtype_, shape, {}, 0, ""});
    std::vector<LoopHead> tasks = outer_;
    tasks.insert(tasks.end(), over_.begin(), over_.end());
    const int64_t bytes = chunk_rows_ * known_columns() * static_cast<int64_t>(size_of(dtype_));
    Block result;
    result.push_back({ir::Alloc{partial_}});
    append(result, in_tasks(tasks, bytes <= kStripBytes ? chunk_by_strips() : chunk_by_rows()));
    append(result, totals());
    return result;
  }

  std::vector<IndexExpr> partial_at() const {
    std::vector<IndexExpr> index = partial_index_;
    index.push_back(IndexExpr::symbol(p_.columns.var));
    return index;
  }

  Block chunk_by_strips() {
    const RegId result = add_reg(k_, dtype_);
    Block body = reduced(inside_, body_, p_.reduce->yield[0], result);
    body.push_back({ir::Store{partial_, partial_at(), result, {}, ir::StoreHint::none}});
    return over_columns(body);
  }

  Block chunk_by_rows() {
    Block task, publish;
    const BufferId results = cleared_row(task);
    append(task, stream_rows(inside_, 0, body_, results));
    const RegId result = add_reg(k_, dtype_);
    publish.push_back(load_result(result, results, p_.columns.var));
    publish.push_back({ir::Store{partial_, partial_at(), result, {}, ir::StoreHint::none}});
    append(task, over_columns(publish, p_.columns.var, 2));
    return task;
  }

  // Combines the chunks in order and runs the rest of the body.
  Block totals() {
    const RegId part = add_reg(k_, dtype_);
    Block body;
    body.push_back({ir::Load{part, partial_, partial_at(), {}, ir::Constant{dtype_}, 0}});
    const std::vector<LoopHead> levels = chunk_levels(body, {});
    PerfectNest nest{nest_.heads, reduced(levels, std::move(body), part, p_.reduce->dst[0])};
    nest.body.insert(nest.body.end(), nest_.body.begin() + 1, nest_.body.end());
    return schedule_columns(s_, std::move(nest), p_.columns.var);
  }

  // --- tasks enough: each does all chunks of its columns --------------------------------------------------------

  Block whole() {
    Block body = body_;
    const std::vector<LoopHead> loops = chunk_levels(body, inside_);
    const RegId result = p_.reduce->dst[0];
    if (known_columns() <= kStripColumns) {
      Block strip = reduced(loops, std::move(body), p_.reduce->yield[0], result);
      append(strip, rest());
      return in_tasks(outer_, over_columns(strip));
    }
    Block task, finish;
    const BufferId results = cleared_row(task);
    append(task, stream_rows(loops, 0, body, results));
    finish.push_back(load_result(result, results, p_.columns.var));
    append(finish, rest());
    append(task, over_columns(finish, p_.columns.var, 1));
    return in_tasks(outer_, std::move(task));
  }

  // --- rows in the order of memory ------------------------------------------------------------------------------

  Stmt load_result(RegId to, BufferId results, VarId column) const {
    return {ir::Load{to, results, {IndexExpr::symbol(column)}, {}, ir::Constant{dtype_}, 0}};
  }

  // A row of results in memory, as they are without any row.
  BufferId cleared_row(Block& out) {
    const std::string name = "results" + std::to_string(k_.buffers.size());
    const BufferId results = add_buffer(k_, {name, ir::Space::reg, dtype_, {columns()}, {}, 0, ""});
    const VarId c = add_var(k_);
    const Operand identity = identity_constants(p_.reduce->combiner, {&dtype_, 1})[0];
    Block clear;
    clear.push_back({ir::Store{results, {IndexExpr::symbol(c)}, identity, {}, ir::StoreHint::none}});
    out.push_back({ir::Alloc{results}});
    append(out, over_columns(clear, c, 2));
    return results;
  }

  // Combines the rows of loop `level`, each the combination of the loops inside it, into `results`.
  Block stream_rows(const std::vector<LoopHead>& loops, size_t level, const Block& body, BufferId results) {
    Block rows, step;
    VarId c = p_.columns.var;
    Operand value = p_.reduce->yield[0];
    if (level + 1 == loops.size()) {
      step = body;
    } else if (loops[level].extent.is(1)) {
      rows = stream_rows(loops, level + 1, body, results);
    } else {
      const BufferId part = cleared_row(rows);
      append(rows, stream_rows(loops, level + 1, body, part));
      c = add_var(k_);
      const RegId loaded = add_reg(k_, dtype_);
      step.push_back(load_result(loaded, part, c));
      value = loaded;
    }
    if (!step.empty()) {
      const RegId before = add_reg(k_, dtype_), after = add_reg(k_, dtype_);
      step.push_back(load_result(before, results, c));
      step.push_back({ir::Let{after, op_, {before, value}}});
      step.push_back({ir::Store{results, {IndexExpr::symbol(c)}, after, {}, ir::StoreHint::none}});
      append(rows, over_columns(step, c, 2));
    }
    Block result;
    result.push_back({ir::Loop{loops[level], std::move(rows), ir::PhaseBoundary::launches}});
    return result;
  }

  const Scheduling& s_;
  ir::Kernel& k_;
  const PerfectNest& nest_;
  Pattern p_;
  ScalarOp op_;
  DType dtype_;
  std::vector<LoopHead> outer_;          // the loops around the columns
  std::vector<LoopHead> over_, inside_;  // the loops over chunks and those inside a chunk
  int64_t chunk_rows_ = 0;
  Block body_;  // of the reduction, in terms of these loops
  BufferId partial_;
  std::vector<IndexExpr> partial_index_;
};

}  // namespace

std::optional<Block> schedule_column_chunks(const Scheduling& s, const PerfectNest& nest) {
  const auto pattern = match(nest);
  if (!pattern) return std::nullopt;
  const LoopHead& columns = pattern->columns;
  if (known_extent(s, columns.extent, kMaxColumns + 1) <= kMaxColumns) return ColumnChunks(s, nest, *pattern).run();
  // Whole blocks of columns, then the columns behind them.
  const IndexExpr blocks = floordiv(columns.extent, kColumnBlock), done = IndexExpr(kColumnBlock) * blocks;
  const IndexExpr column = IndexExpr::symbol(columns.var);
  const auto reduce_part = [&](const PerfectNest& part) {
    return ColumnChunks(s, part, {part.heads.back(), &std::get<ir::Reduce>(part.body[0].v)}).run();
  };
  PerfectNest whole{nest.heads, clone(s.kernel, nest.body)};
  const VarId block = add_var(s.kernel);
  whole.heads.back() = {LoopTag::seq, block, blocks};
  whole.heads.push_back({LoopTag::seq, columns.var, kColumnBlock});
  substitute(whole.body, columns.var, IndexExpr(kColumnBlock) * IndexExpr::symbol(block) + column);
  Block result = reduce_part(whole);
  if (divisible_by(s.kernel, columns.extent, kColumnBlock)) return result;
  PerfectNest rest = nest;
  rest.heads.back().extent = columns.extent - done;
  substitute(rest.body, columns.var, done + column);
  append(result, reduce_part(rest));
  return result;
}

}  // namespace fusec::compiler

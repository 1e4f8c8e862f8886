// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: schedules one reduction down columns that are contiguous in memory. A thread block takes a strip of
// up to 32 accesses of columns; its groups of threads each take every n-th row and combine their sums in shared
// memory. Many rows are split into chunks, whose sums are a second, shorter reduction of the same kind. Chunks and
// groups depend on the numbers of rows and columns.

#include <algorithm>
#include <set>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

// Longer columns are split into chunks of so many rows: at least 64 of them until chunks are long, then at most 1,024;
// more where all strips together would have few blocks.
constexpr int64_t kMinChunk = 256, kLongChunk = 1024, kMaxChunk = 4096;
constexpr int64_t kEnoughBlocks = 1024;
constexpr int64_t kFewRows = 16;     // as many as a thread adds up by itself
constexpr int64_t kNarrowStrip = 4;  // accesses: two sectors
constexpr int64_t kManyStrips = 64;  // of the sums of chunks

// One reduction over one loop, then element-wise work on its result. Results that are as large as the reduced value and
// do not need the sum are stored inside the reduction, so that each element is read once.
struct ColumnNest {
  ir::Reduce reduce;
  Block before, after;
};

bool reads_any(const Block& block, const std::set<RegId>& regs) {
  bool found = false;
  const auto look = [&](const Stmt& stmt) {
    for_each_operand(stmt, [&](const ir::Operand& o) {
      const auto* r = std::get_if<RegId>(&o);
      found |= r != nullptr && regs.contains(*r);
    });
    for_each_index(stmt, [&](const IndexExpr& d) {
      for (RegId r : regs) found |= d.uses(r);
    });
  };
  for_each_stmt(block, look);
  return found;
}

// Turns several loops into one over all their iterations.
void merge_loops(ir::Kernel& k, std::vector<LoopHead>& loops, Block& body) {
  if (loops.size() == 1) return;
  const VarId var = add_var(k);
  const Linear linear = linearize(loops, IndexExpr::symbol(var));
  for (const LoopHead& head : loops) substitute(body, head.var, linear.values.at(head.var));
  loops = {{LoopTag::seq, var, linear.total}};
}

std::optional<ColumnNest> column_nest(ir::Kernel& k, const PerfectNest& nest) {
  ColumnNest c;
  bool reduced = false;
  std::set<RegId> after;  // registers that depend on the sum
  for (const Stmt& stmt : nest.body) {
    if (const auto* reduce = std::get_if<ir::Reduce>(&stmt.v)) {
      if (reduced || tuple_size(reduce->combiner) != 1 || reduce->loops.empty()) return std::nullopt;
      if (has_reduction(reduce->body)) return std::nullopt;
      c.reduce = *reduce;
      merge_loops(k, c.reduce.loops, c.reduce.body);
      reduced = true;
    } else if (std::holds_alternative<ir::Loop>(stmt.v) && reduced) {
      PerfectNest rows = peel_loops(stmt);
      merge_loops(k, rows.heads, rows.body);
      const bool suits = rows.heads[0].extent == c.reduce.loops[0].extent && !reads_any(rows.body, after);
      if (!suits || has_reduction(rows.body)) return std::nullopt;
      substitute(rows.body, rows.heads[0].var, IndexExpr::symbol(c.reduce.loops[0].var));
      for (Stmt& inner : rows.body) c.reduce.body.push_back(std::move(inner));
    } else if (!nested_blocks(stmt).empty() || std::holds_alternative<ir::Alloc>(stmt.v)) {
      return std::nullopt;
    } else {
      (reduced ? c.after : c.before).push_back(stmt);
    }
    if (reduced)
      for (RegId r : defined(stmt)) after.insert(r);
  }
  return reduced ? std::optional(c) : std::nullopt;
}

class ColumnSchedule {
 public:
  ColumnSchedule(const Scheduling& s, const PerfectNest& nest, ColumnNest parts, VarId along)
      : s_(s), k_(s.kernel), parts_(std::move(parts)), rows_(parts_.reduce.loops[0]) {
    for (const LoopHead& head : nest.heads) (head.var == along ? columns_ : outer_.emplace_back()) = head;
    dtype_ = k_.regs[parts_.reduce.dst[0]].dtype;
    lanes_ = std::min(lanes_of_access(k_, parts_.reduce.body, along), 8);
    while (lanes_ > 1 && !divisible_by(k_, columns_.extent, lanes_)) lanes_ /= 2;
    accesses_ = (known_extent(s, columns_.extent, int64_t{kWarp} * lanes_) + lanes_ - 1) / lanes_;
    sharing_ = width_of_strip();
    width_ = decide(s_, &ScheduleChoice::strip, sharing_);
  }

  Block run() {
    const bool is_long = rows_.extent.is_const() && rows_.extent.value() >= 2 * kMinChunk;
    return is_long ? chunked() : strips(parts_.reduce, parts_.after, {});
  }

 private:
  static IndexExpr lane() { return IndexExpr::symbol(ir::kLane); }

  // Up to a warp's accesses, a power of two; where that leaves over a fifth of the threads idle, strips that share the
  // row evenly.
  int width_of_strip() const {
    int64_t width = kWarp;
    while (width > kNarrowStrip && width / 2 >= accesses_) width /= 2;
    const int64_t strips = std::max<int64_t>(1, (accesses_ + width - 1) / width);
    if (5 * accesses_ < 4 * strips * width) width = std::max(kNarrowStrip, (accesses_ + strips - 1) / strips);
    return static_cast<int>(width);
  }

  // The number of threads that share a column. Each takes every n-th row, so the number decides the order of the sum,
  // and no choice changes it.
  int groups(const IndexExpr& rows) const {
    const int64_t n = rows.is_const() ? rows.value() : 512;
    int groups = n <= 64 || n >= kLongChunk ? 8 : n <= 128 ? 16 : 32;
    while (groups * sharing_ < 256 && groups * 4 < n) groups *= 2;
    return groups;
  }

  // Emits a grid over the outer loops, `more` and strips of columns. The thread block computes `reduce` and then runs
  // `after`.
  Block strips(const ir::Reduce& reduce, const Block& after, const std::vector<LoopHead>& more) {
    const VarId strip = add_var(k_);
    std::vector<LoopHead> grid = outer_;
    grid.insert(grid.end(), more.begin(), more.end());
    for (LoopHead& head : grid) head.tag = LoopTag::grid;
    grid.push_back({LoopTag::grid, strip, ceildiv(columns_.extent, int64_t{width_} * lanes_)});
    const int n = groups(reduce.loops[0].extent);
    const BufferId sums = add_buffer(k_, {"sums" + std::to_string(k_.buffers.size()),
                                          ir::Space::shared,
                                          dtype_,
                                          {n, int64_t{width_} * lanes_},
                                          {},
                                          0,
                                          ""});
    Block body;
    body.push_back({ir::Alloc{sums}});
    body.push_back(partial_sums(reduce, sums, n, strip));
    body.push_back(totals(reduce, after, sums, n, strip));
    Block result;
    result.push_back(rebuild_loops(grid, std::move(body)));
    return result;
  }

  // Runs `block` at the columns of thread x of the strip.
  Block at_columns(Block block, VarId strip, VarId x) {
    const IndexExpr access = IndexExpr(width_) * IndexExpr::symbol(strip) + IndexExpr::symbol(x);
    if (lanes_ > 1) {
      vectorize(k_, block, columns_.var, lanes_, access * lanes_);
    } else {
      substitute(block, columns_.var, access);
    }
    Block once;
    once.push_back(only_if(k_, columns_.extent - access * lanes_ - (lanes_ - 1), std::move(block)));
    return once;
  }

  std::vector<IndexExpr> sum_at(const IndexExpr& warp, VarId x) const {
    return {warp, IndexExpr::symbol(x) * lanes_ + (lanes_ > 1 ? lane() : IndexExpr(0))};
  }

  // Sums every n-th row; there is one sum per group of threads and column.
  Stmt partial_sums(const ir::Reduce& reduce, BufferId sums, int n, VarId strip) {
    const VarId y = add_var(k_), x = add_var(k_);
    Block body = parts_.before;
    body.push_back({reduce});
    body = clone(k_, body);
    auto& own = std::get<ir::Reduce>(body.back().v);
    LoopHead& rows = own.loops[0];
    const VarId step = add_var(k_);
    substitute(own.body, rows.var, IndexExpr(n) * IndexExpr::symbol(step) + IndexExpr::symbol(y));
    rows = {LoopTag::seq, step, floordiv(rows.extent - IndexExpr::symbol(y) + (n - 1), n)};
    own.tree = {};
    const RegId sum = own.dst[0];
    body.push_back({ir::Store{sums, {}, sum, {}, ir::StoreHint::none}});
    body = at_columns(std::move(body), strip, x);
    finish_sums(body, sums, IndexExpr::symbol(y), x);
    return rebuild_loops({{LoopTag::block, y, n}, {LoopTag::block, x, width_}}, std::move(body));
  }

  // Gives the store of the sums its index, and a value as wide as an access.
  void finish_sums(Block& body, BufferId sums, const IndexExpr& warp, VarId x) {
    auto& inner = std::get<ir::Loop>(body.back().v).body;
    auto& store = std::get<ir::Store>(inner.back().v);
    store.index = sum_at(warp, x);
    if (store.buffer != sums || width_of(k_, store.value) == lanes_) return;
    const RegId wide = add_reg(k_, dtype_, lanes_);
    Stmt splat{ir::Let{wide, ir::ScalarOp::where, {ir::int_constant(DType::bool_, 1), store.value, store.value}}};
    store.value = wide;
    inner.insert(inner.end() - 1, std::move(splat));
  }

  // Combines the sums of all groups by pairs, then runs what follows.
  Stmt totals(const ir::Reduce& reduce, const Block& after, BufferId sums, int n, VarId strip) {
    const VarId x = add_var(k_), y = add_var(k_);
    Block body = parts_.before;
    const RegId total = add_reg(k_, dtype_, lanes_), part = add_reg(k_, dtype_, lanes_);
    ir::Reduce all{{total}, reduce.combiner, {0, 0}, {{LoopTag::unroll, y, n}}, {}, {part}, {}};
    all.body.push_back({ir::Load{part, sums, sum_at(IndexExpr::symbol(y), x), {}, ir::Constant{dtype_}, 0}});
    // The element-wise part is vectorized with a placeholder for the total: a load from the sums.
    ir::Load stand_in{reduce.dst[0],        sums, {IndexExpr(0), IndexExpr::symbol(columns_.var)}, {},
                      ir::Constant{dtype_}, 0};
    body.push_back({stand_in});
    body.insert(body.end(), after.begin(), after.end());
    body = at_columns(clone(k_, body), strip, x);
    for (Stmt& stmt : std::get<ir::Loop>(body[0].v).body) {
      auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load == nullptr || load->buffer != sums) continue;
      all.dst = {load->dst};
      stmt = {std::move(all)};
      break;
    }
    return rebuild_loops({{LoopTag::block, x, width_}}, std::move(body));
  }

  int64_t chunk_rows(int64_t rows) const {
    int64_t chunk = kMinChunk;
    while ((chunk < kLongChunk && 64 * chunk < rows) || (chunk < kMaxChunk && 1024 * chunk < rows)) chunk *= 2;
    const int64_t strips = (accesses_ + kWarp - 1) / kWarp;
    while (chunk > kMinChunk && rows * strips < kEnoughBlocks * chunk) chunk /= 2;
    return chunk;
  }

  Block chunked() {
    const int64_t n = rows_.extent.value(), chunks = (n + chunk_rows(n) - 1) / chunk_rows(n);
    ir::IndexShape shape;
    for (const LoopHead& head : outer_) shape.push_back(head.extent);
    shape.insert(shape.end(), {chunks, columns_.extent});
    const BufferId partial = add_buffer(k_, {"partial", ir::Space::scratch, dtype_, shape, {}, 0, ""});
    Block result;
    result.push_back({ir::Alloc{partial}});
    const VarId c = add_var(k_);
    for (Stmt& stmt : chunk_sums(partial, c, chunks)) result.push_back(std::move(stmt));
    ir::Reduce second = parts_.reduce;  // of the chunks' sums
    const VarId r = add_var(k_);
    const RegId part = add_reg(k_, dtype_);
    second.loops = {{LoopTag::seq, r, chunks}};
    second.body.clear();
    second.body.push_back({ir::Load{part, partial, partial_at(IndexExpr::symbol(r)), {}, ir::Constant{dtype_}, 0}});
    second.yield = {part};
    // These rows are few: narrow strips let more multiprocessors read them.
    if (accesses_ < kManyStrips * kNarrowStrip) sharing_ = width_ = kNarrowStrip;
    for (Stmt& stmt : strips(second, parts_.after, {})) result.push_back(std::move(stmt));
    return result;
  }

  std::vector<IndexExpr> partial_at(const IndexExpr& chunk) const {
    std::vector<IndexExpr> index;
    for (const LoopHead& head : outer_) index.push_back(IndexExpr::symbol(head.var));
    index.insert(index.end(), {chunk, IndexExpr::symbol(columns_.var)});
    return index;
  }

  Block chunk_sums(BufferId partial, VarId c, int64_t chunks) {
    ir::Reduce first = parts_.reduce;
    const int64_t n = rows_.extent.value(), chunk = chunk_rows(n);
    const IndexExpr start = IndexExpr(chunk) * IndexExpr::symbol(c);
    const VarId r = add_var(k_);
    substitute(first.body, rows_.var, start + IndexExpr::symbol(r));
    first.loops = {{LoopTag::seq, r, n % chunk == 0 ? IndexExpr(chunk) : min(chunk, IndexExpr(n) - start)}};
    Block publish;
    publish.push_back({ir::Store{partial, partial_at(IndexExpr::symbol(c)), first.dst[0], {}, ir::StoreHint::none}});
    return strips(first, publish, {{LoopTag::grid, c, chunks}});
  }

  const Scheduling& s_;
  ir::Kernel& k_;
  ColumnNest parts_;
  LoopHead rows_, columns_;
  std::vector<LoopHead> outer_;
  DType dtype_;
  int64_t accesses_ = 1;           // of a row
  int lanes_ = 1, width_ = kWarp;  // of an access; accesses of a strip
  int sharing_ = kWarp;            // accesses of the strip that the number of rows and columns asks for
};

}  // namespace

std::optional<Block> cuda_columns(const Scheduling& s, const PerfectNest& nest, VarId along) {
  auto parts = column_nest(s.kernel, nest);
  if (!parts || known_extent(s, parts->reduce.loops[0].extent, kFewRows + 1) <= kFewRows) return std::nullopt;
  return ColumnSchedule(s, nest, std::move(*parts), along).run();
}

}  // namespace fusec::compiler

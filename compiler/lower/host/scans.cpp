// SPDX-License-Identifier: Apache-2.0
// Schedules scans. Along columns, a task takes a block of neighbouring columns and keeps their running values in memory
// of its own, so that it reads and writes whole pieces of rows in vectors. Along rows, a task scans several rows at
// once, because one sum has to wait for the sum before it, chunk by chunk: the sums of a chunk go to memory of the
// task, from where vectors finish and store them. Stores to the rows themselves would get in the way of the next loads
// where rows lie a multiple of 4 KB apart. Each element is added in the order of the axis, whatever the block, the
// chunk or the number of rows.

#include <algorithm>
#include <optional>
#include <utility>

#include "compiler/lower/host/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"
#include "ir/kernel/combiner.h"

namespace fusec::compiler {
namespace {

// Columns of a task. Their running values stay in the first-level cache.
constexpr int64_t kMaxScanColumns = 2048, kMinScanColumns = 64;
// Rows that a task scans at once at most: enough to hide the latency of an addition.
constexpr int64_t kRows = 4;
// Elements of a row that are scanned before they are stored, and those that keep the rows apart in memory.
constexpr int64_t kChunk = 512, kApart = 16;
// Tasks that a thread should have.
constexpr int64_t kTasksPerThread = 2;
// The cost (cycles per 16 elements) of what is scanned up to which it is computed one element at a time.
constexpr int kCheap = 8;

int sum_costs(const Block& block) {
  int cost = 0;
  for (const Stmt& stmt : block)
    if (const auto* let = std::get_if<ir::Let>(&stmt.v)) cost += info(let->op).cost;
  return cost;
}

class ScanScheduler {
 public:
  ScanScheduler(const Scheduling& s, PerfectNest nest)
      : s_(s), k_(s.kernel), nest_(std::move(nest)), scan_(*lone_scan(nest_)), dtype_(k_.regs[scan_.dst].dtype) {}

  Block run() {
    const auto column = scan_column(nest_, scan_);
    if (column) {
      const LoopHead head = nest_.heads[*column];
      nest_.heads.erase(nest_.heads.begin() + static_cast<std::ptrdiff_t>(*column));
      nest_.heads.push_back(head);
    }
    for (LoopHead& head : nest_.heads) head.tag = LoopTag::grid;
    k_.may_alias.clear();  // the order of reads and writes in place is not proved for these loops
    return column ? columns() : rows();
  }

 private:
  const LoopHead& inner() const { return nest_.heads.back(); }

  // The largest power of two up to `most`, and from `least` on, that leaves enough tasks for all threads.
  int64_t share(int64_t most, int64_t least) const {
    int64_t others = 1;
    for (size_t i = 0; i + 1 < nest_.heads.size(); ++i) others *= known_extent(s_, nest_.heads[i].extent, 1);
    const int64_t wanted = kTasksPerThread * std::max(1, s_.target.threads);
    const int64_t all = known_extent(s_, inner().extent, kTaskElements);
    while (most > least && all / most * others < wanted) most /= 2;
    return most;
  }

  BufferId running_values(int64_t count) {
    const std::string name = "running" + std::to_string(k_.buffers.size());
    return add_buffer(k_, {name, ir::Space::reg, dtype_, {IndexExpr(count)}, {}, 0, ""});
  }

  Stmt reset(BufferId running, const IndexExpr& at) const {
    return {ir::Store{running, {at}, identity_constants(scan_.combiner, {&dtype_, 1})[0], {}, ir::StoreHint::none}};
  }

  // Combines one element with the running value in memory; scan_.dst is the result.
  Block combination(BufferId running, const IndexExpr& at) {
    const RegId other = add_reg(k_, dtype_);
    const RegId before = scan_.exclusive ? scan_.dst : other, after = scan_.exclusive ? other : scan_.dst;
    Block block = scan_.body;
    block.push_back({ir::Load{before, running, {at}, {}, ir::Constant{dtype_}, 0}});
    block.push_back({ir::Let{after, combining_op(scan_.combiner), {before, scan_.yield}}});
    block.push_back({ir::Store{running, {at}, after, {}, ir::StoreHint::none}});
    return block;
  }

  static Stmt loop(VarId var, const IndexExpr& extent, Block body) {
    return {ir::Loop{{LoopTag::seq, var, extent}, std::move(body), ir::PhaseBoundary::launches}};
  }
  static void append(Block& to, Block from) {
    for (Stmt& stmt : from) to.push_back(std::move(stmt));
  }

  // The tasks of `count` pieces, numbered by `piece`, of the innermost loop.
  void append_tasks(Block& out, VarId piece, const IndexExpr& count, Block task) const {
    if (count.is(0)) return;
    std::vector<LoopHead> heads = nest_.heads;
    heads.back() = {LoopTag::grid, piece, count};
    out.push_back(rebuild_loops(heads, std::move(task)));
  }

  // --- columns -------------------------------------------------------------------------------------------------

  Block columns() {
    const int64_t block = share(kMaxScanColumns, kMinScanColumns);
    const IndexExpr whole = floordiv(inner().extent, block), done = IndexExpr(block) * whole;
    const VarId piece = add_var(k_);
    Block result;
    append_tasks(result, piece, whole, columns_task(IndexExpr(block) * IndexExpr::symbol(piece), block, block));
    if (divisible_by(k_, inner().extent, block)) return result;
    append_tasks(result, add_var(k_), 1, columns_task(done, inner().extent - done, block));
    return result;
  }

  Block columns_task(const IndexExpr& first, const IndexExpr& length, int64_t block) {
    const BufferId running = running_values(block);
    const VarId column = add_var(k_), step = add_var(k_);
    const IndexExpr at = IndexExpr::symbol(column), i = IndexExpr::symbol(step);
    Block body = combination(running, at);
    body.insert(body.end(), scan_.then.begin(), scan_.then.end());
    body = clone(k_, body);
    substitute(body, scan_.loop.var, scan_.reverse ? scan_.loop.extent - 1 - i : i);
    substitute(body, inner().var, first + at);
    const int lanes = lanes_for(k_, body, s_.target, 2);
    const bool divisible = divisible_by(k_, length, lanes);
    Block task;
    task.push_back({ir::Alloc{running}});
    append(task, vector_loops(k_, {reset(running, at)}, column, 0, length, lanes, divisible));
    task.push_back(loop(step, scan_.loop.extent, vector_loops(k_, body, column, 0, length, lanes, divisible)));
    return task;
  }

  // --- rows ----------------------------------------------------------------------------------------------------

  Block rows() {
    const int64_t group = share(kRows, 1);
    const IndexExpr whole = floordiv(inner().extent, group), done = IndexExpr(group) * whole;
    const VarId piece = add_var(k_);
    Block result;
    append_tasks(result, piece, whole, rows_task(IndexExpr(group) * IndexExpr::symbol(piece), group));
    if (group == 1 || divisible_by(k_, inner().extent, group)) return result;
    const VarId rest = add_var(k_);
    append_tasks(result, rest, inner().extent - done, rows_task(done + IndexExpr::symbol(rest), 1));
    return result;
  }

  Block rows_task(const IndexExpr& first, int64_t group) {
    Rows rows{first,
              {},
              add_buffer(k_, {"sums" + std::to_string(k_.buffers.size()),
                              ir::Space::reg,
                              dtype_,
                              {IndexExpr(group), IndexExpr(kChunk + kApart)},
                              {},
                              0,
                              ""})};
    Block task;
    task.push_back({ir::Alloc{rows.sums}});
    for (int64_t row = 0; row < group; ++row) {
      rows.running.push_back(running_values(1));
      task.push_back({ir::Alloc{rows.running.back()}});
      task.push_back(reset(rows.running.back(), 0));
    }
    const IndexExpr& length = scan_.loop.extent;
    const IndexExpr whole = floordiv(length, kChunk), done = IndexExpr(kChunk) * whole;
    const VarId c = add_var(k_);
    if (!whole.is(0)) task.push_back(loop(c, whole, chunk(rows, IndexExpr(kChunk) * IndexExpr::symbol(c), kChunk)));
    if (!divisible_by(k_, length, kChunk)) append(task, chunk(rows, done, length - done));
    return task;
  }

  struct Rows {
    IndexExpr first;
    std::vector<BufferId> running;  // by row
    BufferId sums;                  // of a chunk, by row
  };

  // The iterations of the scan from `base` on. The sums lie in the order of memory, which is not that of the iterations
  // if the scan is reversed.
  Block chunk(const Rows& rows, const IndexExpr& base, const IndexExpr& length) {
    const VarId step = add_var(k_), place = add_var(k_);
    const IndexExpr i = IndexExpr::symbol(step), j = IndexExpr::symbol(place), end = scan_.loop.extent;
    Block body, result;
    for (size_t row = 0; row < rows.running.size(); ++row) {
      Block one = combination(rows.running[row], 0);
      const IndexExpr at = scan_.reverse ? length - 1 - i : i, r = static_cast<int64_t>(row);
      one.push_back({ir::Store{rows.sums, {r, at}, scan_.dst, {}, ir::StoreHint::none}});
      one = clone(k_, one);
      substitute(one, scan_.loop.var, scan_.reverse ? end - 1 - base - i : base + i);
      substitute(one, inner().var, rows.first + r);
      append(body, std::move(one));
    }
    result.push_back(loop(step, length, std::move(body)));
    for (size_t row = 0; row < rows.running.size(); ++row) {
      const IndexExpr r = static_cast<int64_t>(row);
      Block one{{ir::Load{scan_.dst, rows.sums, {r, j}, {}, ir::Constant{dtype_}, 0}}};
      one.insert(one.end(), scan_.then.begin(), scan_.then.end());
      one = clone(k_, one);
      substitute(one, scan_.loop.var, scan_.reverse ? end - base - length + j : base + j);
      substitute(one, inner().var, rows.first + r);
      const int lanes = lanes_for(k_, one, s_.target, 2);
      append(result, vector_loops(k_, one, place, 0, length, lanes, divisible_by(k_, length, lanes)));
    }
    return result;
  }

  const Scheduling& s_;
  ir::Kernel& k_;
  PerfectNest nest_;
  const ir::Scan scan_;
  const DType dtype_;
};

}  // namespace

bool scans_in_place(const PerfectNest& nest) {
  const ir::Scan* const scan = lone_scan(nest);
  if (scan == nullptr) return false;
  return scan_column(nest, *scan) || sum_costs(scan->body) <= kCheap;
}

std::optional<Block> schedule_scan(const Scheduling& s, const PerfectNest& nest) {
  if (!scans_in_place(nest)) return std::nullopt;
  return ScanScheduler(s, nest).run();
}

}  // namespace fusec::compiler

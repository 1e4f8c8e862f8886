// SPDX-License-Identifier: Apache-2.0
// Lower for GPUs: assigns the iterations of block loops to threads. A block loop becomes a condition on the thread's
// number, and its variable an expression over that number.

#include "compiler/lower/gpu/threads.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "compiler/lower/rewrite/kernel_names.h"
#include "ir/text/kernel_text.h"

namespace fusec::compiler {

IndexExpr resolve(const ThreadLowering& l, const IndexExpr& e) {
  return e.is_const() ? e : simplify(e.substitute(l.values), l.ranges);
}

Operand append_let(ThreadLowering& l, ir::ScalarOp op, ir::RegInfo result, std::vector<Operand> args) {
  const RegId dst = add_reg(l.kernel, result.dtype, result.width);
  l.out->push_back({ir::Let{dst, op, std::move(args)}});
  return dst;
}

Operand append_copy(ThreadLowering& l, ir::RegInfo result, Operand value) {
  return append_let(l, ir::ScalarOp::cast, result, {value});
}

Operand append_index(ThreadLowering& l, DType dtype, const IndexExpr& at) {
  const RegId dst = add_reg(l.kernel, dtype);
  l.out->push_back({ir::IndexValue{dst, resolve(l, at)}});
  return dst;
}

namespace {

std::vector<IndexExpr> at_lane(const ThreadLowering& l, std::vector<IndexExpr> at, int width) {
  for (IndexExpr& e : at) e = resolve(l, e);
  if (width > 1) at.back() += IndexExpr::symbol(ir::kLane);
  return at;
}

}  // namespace

Operand append_load(ThreadLowering& l, BufferId buffer, std::vector<IndexExpr> at, int width) {
  const DType dtype = l.kernel.buffers[buffer].dtype;
  const RegId dst = add_reg(l.kernel, dtype, width);
  l.out->push_back({ir::Load{dst, buffer, at_lane(l, std::move(at), width), {}, {dtype, 0, 0}, 0}});
  return dst;
}

void append_store(ThreadLowering& l, BufferId buffer, std::vector<IndexExpr> at, const Operand& value,
                  const ir::Guard& guard) {
  const int width = ir::width_of(l.kernel, value);
  ir::Store store{buffer, at_lane(l, std::move(at), width), value, {}, ir::StoreHint::none};
  l.ranges[ir::kLane] = {IndexExpr(0), IndexExpr(width - 1)};
  for (const IndexExpr& term : guard) store.guard.push_back(resolve(l, term));
  l.out->push_back({std::move(store)});
}

namespace {

Block collect(ThreadLowering& l, const std::function<void()>& body) {
  Block block;
  Block* outer = std::exchange(l.out, &block);
  body();
  l.out = outer;
  return block;
}

}  // namespace

void append_if(ThreadLowering& l, const ir::Guard& condition, const std::function<void()>& body) {
  ir::If branch;
  for (const IndexExpr& term : condition) {
    const IndexExpr resolved = resolve(l, term);
    if (resolved.is_const() && resolved.value() < 0) return;
    if (!proves_nonneg(resolved, l.ranges)) branch.condition.push_back(resolved);
  }
  if (branch.condition.empty()) return body();
  branch.body = collect(l, body);
  l.out->push_back({std::move(branch)});
}

BufferId append_buffer(ThreadLowering& l, ir::Space space, DType dtype, int64_t count) {
  ir::Buffer buffer;
  buffer.name = (space == ir::Space::reg ? "r" : "x") + std::to_string(l.kernel.buffers.size());
  buffer.space = space;
  buffer.dtype = dtype;
  buffer.shape = {std::max<int64_t>(1, count)};
  const BufferId id = add_buffer(l.kernel, std::move(buffer));
  (space == ir::Space::shared ? l.shared : *l.out).push_back({ir::Alloc{id}});
  return id;
}

int64_t constant_extent(const ThreadLowering& l, const LoopHead& loop) {
  const IndexExpr extent = resolve(l, loop.extent);
  if (extent.is_const()) return std::max<int64_t>(0, extent.value());
  throw UnsupportedSchedule(std::string(to_string(loop.tag)) + " loop '" + name_of(l.kernel, loop.var) +
                            "' has the extent " + named(l.kernel, loop.extent).str() + ", which is no constant");
}

int64_t bind_threads(ThreadLowering& l, const std::vector<LoopHead>& loops, int64_t inner) {
  int64_t stride = inner;
  for (size_t i = loops.size(); i-- > 0;) {
    const int64_t extent = constant_extent(l, loops[i]);
    const bool outermost = std::all_of(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(i),
                                       [&](const LoopHead& loop) { return constant_extent(l, loop) == 1; });
    IndexExpr value = extent <= 1 ? IndexExpr(0) : floordiv(l.group.thread, stride);
    if (!outermost && extent > 1) value = mod(value, extent);
    l.values[loops[i].var] = simplify(value, l.ranges);
    stride *= extent;
  }
  return stride;
}

namespace {

// A loop that runs at most once becomes a condition: compilers would keep its back edge and move no work of following
// iterations across it.
void lower_loop(ThreadLowering& l, const LoopHead& head, const std::function<void()>& body) {
  const IndexExpr extent = resolve(l, head.extent);
  if (extent.is_const() && extent.value() <= 0) return;
  if (extent.is(1) || proves_nonneg(1 - extent, l.ranges)) {
    l.values[head.var] = 0;
    return append_if(l, {ir::find_loop_count(extent).count - 1}, body);
  }
  l.ranges[head.var] = {IndexExpr(0), extent - 1};
  Block inside = collect(l, body);
  l.out->push_back({ir::Loop{{head.tag, head.var, extent}, std::move(inside), ir::PhaseBoundary::launches, 0}});
}

bool uses_data(const IndexExpr& e) {
  std::set<ir::SymbolId> symbols;
  e.collect_symbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(), [](ir::SymbolId s) { return s.reg().has_value(); });
}

}  // namespace

void append_loop(ThreadLowering& l, const LoopHead& head, const std::function<void()>& body) {
  if (head.tag >= LoopTag::block) throw UnsupportedSchedule("a parallel loop where a plain one is needed");
  const ThreadGroup outer = l.group;
  const IndexExpr extent = resolve(l, head.extent);
  const bool splits_warps = l.group.alignment % 32 != 0 || l.group.size % 32 != 0;
  if (!extent.is(1) && (uses_data(extent) || (extent.uses(ir::kThread) && splits_warps))) l.group.mask.reset();
  const int around = l.loops;
  l.loops += !extent.is(1);
  lower_loop(l, head, body);
  l.loops = around;
  l.group = outer;
}

namespace {

// The largest product of the extents of nested parallel loops with a tag of at least `from`.
int64_t count_iterations(const ThreadLowering& l, const Block& block, LoopTag from) {
  int64_t most = 1;
  for (const Stmt& stmt : block) {
    int64_t count = 1;
    for (const Block* nested : ir::nested_blocks(stmt)) count = std::max(count, count_iterations(l, *nested, from));
    ir::for_each_head(stmt, [&](const LoopHead& head) {
      if (head.tag >= from) count *= constant_extent(l, head);
    });
    most = std::max(most, count);
  }
  return most;
}

}  // namespace

int64_t count_threads(const ThreadLowering& l, const Block& block) {
  return count_iterations(l, block, LoopTag::block);
}
int64_t count_blocks(const ThreadLowering& l, const Block& block) {
  return std::max<int64_t>(1, count_iterations(l, block, LoopTag::cluster));
}

namespace {

// Whether threads synchronize or exchange values in the block.
bool is_collective(const Block& block) {
  bool found = false;
  ir::for_each_stmt(block, [&](const Stmt& stmt) {
    const auto* reduce = std::get_if<ir::Reduce>(&stmt.v);
    found |= std::holds_alternative<ir::Sync>(stmt.v) || (reduce != nullptr && has_block_loop(*reduce));
  });
  return found;
}

// Whether the first `total` threads of the group may leave a warp with both participating and idle threads.
bool splits_warps(const ThreadGroup& group, int64_t total) {
  return total < group.size && (group.alignment % 32 != 0 || total % 32 != 0);
}

// The groups of `size` into which the first `total` threads of a group split.
ThreadGroup split(ThreadLowering& l, int64_t total, int64_t size, bool collective) {
  ThreadGroup own = l.group;
  if (collective && splits_warps(l.group, total)) {
    if (!l.group.mask) throw UnsupportedSchedule("not all threads of the warp come here together");
    const RegId mask = add_reg(l.kernel, DType::u32);
    l.out->push_back({ir::Ballot{mask, {resolve(l, total - 1 - l.group.thread)}, *l.group.mask}});
    own.mask = mask;
  }
  own.size = size;
  own.alignment = std::gcd(l.group.alignment, size);
  own.thread = simplify(size == 1 ? IndexExpr(0) : mod(l.group.thread, size), l.ranges);
  return own;
}

void lower_block_loop(ThreadLowering& l, const ir::Loop& loop) {
  const int64_t inner = count_threads(l, loop.body);
  const int64_t total = bind_threads(l, {loop.head}, inner);
  if (total == 0) return;
  const ThreadGroup outer = l.group, own = split(l, total, inner, is_collective(loop.body));
  append_if(l, {total - 1 - outer.thread}, [&] {
    l.group = own;
    lower_block(l, loop.body);
    l.group = outer;
  });
}

void lower_plain(ThreadLowering& l, const Stmt& stmt);

// The threads of the group copy elements in turn; the elements of the box are numbered row-major. What one thread
// copies in one instruction stays as it is.
void lower_copy(ThreadLowering& l, const ir::CopyAsync& copy) {
  if (l.group.size == 1 && ir::copied_bytes(l.kernel, copy) > 0) return lower_plain(l, {copy});
  IndexExpr count = 1;
  for (const IndexExpr& extent : copy.extents) count *= extent;
  const ir::VarId turn = add_var(l.kernel);
  const IndexExpr number = IndexExpr::symbol(turn) * l.group.size + l.group.thread;
  append_loop(l, {LoopTag::seq, turn, ceildiv(count, l.group.size)}, [&] {
    std::vector<IndexExpr> from = copy.src_index, to = copy.dst_index;
    IndexExpr rest = number;
    for (size_t k = copy.extents.size(); k-- > 0; rest = floordiv(rest, copy.extents[k])) {
      const IndexExpr at = k == 0 ? rest : mod(rest, copy.extents[k]);
      from[from.size() - copy.extents.size() + k] += at;
      to[to.size() - copy.extents.size() + k] += at;
    }
    const ir::Guard inside = {count - 1 - number};
    append_if(l, inside, [&] {
      const RegId value = add_reg(l.kernel, l.kernel.buffers[copy.src].dtype);
      for (std::vector<IndexExpr>* index : {&from, &to}) {
        for (IndexExpr& e : *index) e = resolve(l, e);
      }
      ir::Guard guard = copy.guard;
      for (IndexExpr& e : guard) e = resolve(l, e);
      l.out->push_back({ir::Load{value, copy.src, from, guard, {l.kernel.buffers[copy.src].dtype, 0, 0}, 0}});
      l.out->push_back({ir::Store{copy.dst, to, value, {}, ir::StoreHint::none}});
    });
  });
}

// What one thread does for its group: stores outside of the thread's registers.
void store_once(ThreadLowering& l, ir::Store& store) {
  if (l.kernel.buffers[store.buffer].space == ir::Space::reg || l.group.size == 1) return;
  store.guard.push_back(resolve(l, -l.group.thread));
}

// A warp's thread that several block loops give, as rows of threads, is its number.
void number_lanes(const ThreadLowering& l, IndexExpr& lane) {
  const IndexExpr number = mod(IndexExpr::symbol(ir::kThread), 32);
  for (int64_t t = 0; t < l.block_threads; ++t) {
    const std::map<ir::SymbolId, int64_t> at{{ir::kThread, t}};
    if (lane.eval(at) != number.eval(at)) return;
  }
  lane = number;
}

void lower_plain(ThreadLowering& l, const Stmt& stmt) {
  Stmt own = stmt;
  l.ranges[ir::kLane] = {IndexExpr(0), IndexExpr(ir::width_of(l.kernel, stmt) - 1)};
  ir::for_each_index(own, [&](IndexExpr& e) { e = resolve(l, e); });
  if (auto* store = std::get_if<ir::Store>(&own.v)) store_once(l, *store);
  if (auto* mma = std::get_if<ir::Mma>(&own.v)) number_lanes(l, mma->lane);
  l.out->push_back(std::move(own));
}

void lower_loop_stmt(ThreadLowering& l, const ir::Loop& loop) {
  switch (loop.head.tag) {
    case LoopTag::grid:
      throw UnsupportedSchedule("a grid loop must be outermost and perfectly nested");
    case LoopTag::cluster:
    case LoopTag::block:
      return lower_block_loop(l, loop);
    case LoopTag::seq:
    case LoopTag::unroll:
      return append_loop(l, loop.head, [&] { lower_block(l, loop.body); });
  }
}

void lower_stmt(ThreadLowering& l, const Stmt& stmt) {
  if (const auto* loop = std::get_if<ir::Loop>(&stmt.v)) return lower_loop_stmt(l, *loop);
  if (const auto* reduce = std::get_if<ir::Reduce>(&stmt.v)) return lower_reduce(l, *reduce);
  if (const auto* scan = std::get_if<ir::Scan>(&stmt.v)) return lower_scan(l, *scan);
  if (const auto* copy = std::get_if<ir::CopyAsync>(&stmt.v)) return lower_copy(l, *copy);
  if (const auto* sync = std::get_if<ir::Sync>(&stmt.v)) {  // place_syncs finds all barriers that are needed
    if (sync->scope == ir::SyncScope::copies) l.out->push_back(stmt);
    return;
  }
  if (const auto* alloc = std::get_if<ir::Alloc>(&stmt.v)) {
    const bool is_shared = l.kernel.buffers[alloc->buffer].space == ir::Space::shared;
    return (is_shared ? l.shared : *l.out).push_back(stmt);
  }
  lower_plain(l, stmt);
}

}  // namespace

void lower_block(ThreadLowering& l, const Block& block) {
  for (const Stmt& stmt : block) {
    try {
      lower_stmt(l, stmt);
    } catch (const UnsupportedSchedule& e) {
      if (e.is_named) throw;
      throw UnsupportedSchedule("cannot lower '" + print_stmt(l.kernel, stmt) + "': " + e.what(), true);
    }
  }
}

}  // namespace fusec::compiler

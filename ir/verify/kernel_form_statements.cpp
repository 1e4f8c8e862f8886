// SPDX-License-Identifier: Apache-2.0
// Checks the form of a kernel's statements other than loops: dtypes, widths, operands, and the spaces of buffers.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/verify/kernel_form.h"

namespace fusec::ir {
namespace {

constexpr int64_t kMaxTreeLanes = 1 << 16;

}  // namespace

void FormCheck::check(const Alloc& a, const Stmt& s) {
  if (!k_.buffers.contains(a.buffer)) return find(s, "allocates no buffer");
  const Buffer& b = k_.buffers[a.buffer];
  if (b.space == Space::in || b.space == Space::out) find(s, "allocates a parameter");
  if (b.space == Space::scratch && !tags_.empty()) find(s, "allocates scratch inside of a loop");
  const bool spread = cluster_ == 1 || b.space != Space::shared || (!b.shape.empty() && b.shape[0].is(cluster_));
  if (!spread) find(s, "has a first axis that is not the blocks of the cluster");
  declare(a.buffer);
}

void FormCheck::check(const Let& let, const Stmt& s) {
  const ScalarOpInfo& op = info(let.op);
  bool good = let.args.size() == static_cast<std::size_t>(op.arity);
  if (!good) find(s, fmt::format("takes {} operands", op.arity));
  for (const Operand& o : let.args) good &= usable(o, s);
  if (define(let.dst, s) && good) typing(let, s);
}

void FormCheck::typing(const Let& let, const Stmt& s) {
  const RegInfo& result = k_.regs[let.dst];
  for (const Operand& o : let.args) width(o, result.width, s);
  const bool select = info(let.op).typing == Typing::select;
  if (select && dtype(let.args[0]) != DType::bool_) find(s, "chooses by what is no bool");
  const DType operand = dtype(let.args.back());
  for (std::size_t i = select ? 1 : 0; i < let.args.size(); ++i) {
    if (dtype(let.args[i]) != operand) return find(s, "mixes dtypes");
  }
  if (!accepts(let.op, operand)) find(s, fmt::format("does not take {}", fusec::to_string(operand)));
  if (result_type(let.op, operand, result.dtype) != result.dtype) find(s, "has another result type");
}

void FormCheck::check(const IndexValue& v, const Stmt& s) {
  if (define(v.dst, s)) dim(v.value, k_.regs[v.dst].width, s);
}

void FormCheck::check(const Load& load, const Stmt& s) {
  const int w = k_.regs.contains(load.dst) ? k_.regs[load.dst].width : 1;
  dims(load.guard, w, s);
  if (!element(load.buffer, load.index, w, s) || !define(load.dst, s)) return;
  const Buffer& b = k_.buffers[load.buffer];
  if (b.space == Space::out) find(s, fmt::format("loads from the out buffer {}", b.name));
  if (b.dtype != k_.regs[load.dst].dtype) find(s, fmt::format("has another dtype than {}", b.name));
  if (!load.guard.empty() && load.otherwise.dtype != b.dtype) find(s, "has an else of another dtype");
  if (load.clamp >> std::min<std::size_t>(31, b.shape.size()) >> (b.shape.size() > 31))
    find(s, "clamps an axis that is not there");
}

void FormCheck::check(const Store& store, const Stmt& s) {
  if (!usable(store.value, s)) return;
  const int w = width_of(k_, store.value);
  dims(store.guard, w, s);
  if (!element(store.buffer, store.index, w, s)) return;
  const Buffer& b = k_.buffers[store.buffer];
  if (b.space == Space::in) find(s, fmt::format("stores to the in buffer {}", b.name));
  if (b.dtype != dtype(store.value)) find(s, fmt::format("has another dtype than {}", b.name));
}

void FormCheck::check(const If& branch, const Stmt& s) {
  dims(branch.condition, 1, s);
  lowered(s);
  const bool outer =
      std::exchange(splits_warp_, splits_warp_ || std::any_of(branch.condition.begin(), branch.condition.end(),
                                                              [](const IndexExpr& e) { return e.uses(kThread); }));
  block(branch.body);
  splits_warp_ = outer;
}

void FormCheck::check(const Choose& c, const Stmt& s) {
  lowered(s);
  if (!c.head.extent.is(static_cast<int64_t>(c.among.size())) || c.head.tag != LoopTag::seq)
    find(s, "has another extent than the number of its buffers");
  if (!k_.buffers.contains(c.buffer)) return find(s, "chooses no buffer");
  for (const BufferId b : c.among) {
    if (!known(b, s)) return;
    Buffer like = k_.buffers[b];
    like.name = k_.buffers[c.buffer].name;
    const bool fits = like.space == Space::in && like == k_.buffers[c.buffer] && !may_alias(k_, b);
    if (!fits)
      find(s, fmt::format("cannot choose {}: it differs, is no in parameter or may alias", k_.buffers[b].name));
  }
  uniform(c.number, s);
  const Scope outer = std::exchange(scope_, {});
  declare(c.buffer);
  enter(c.head, s);
  statements(c.body);
  exit(c.head);
  leave(outer);
}

void FormCheck::uniform(const IndexExpr& e, const Stmt& s) {
  dim(e, 1, s);
  std::set<SymbolId> symbols;
  e.collect_symbols(symbols);
  for (const SymbolId id : symbols) {
    if (!is_extent(id) && !(id.var() && grid_loops_.count(*id.var())))
      find(s, fmt::format("depends on {}, which is no extent or grid loop", name_of(k_, id)));
  }
}

void FormCheck::lowered(const Stmt& s) {
  if (!lowered_) find(s, "is of the lowered form, which this kernel does not have");
}

void FormCheck::mask(const Operand& o, const Stmt& s) {
  if (usable(o, s) && dtype(o) != DType::u32) find(s, "has a mask that is no u32");
}

void FormCheck::check(const Shuffle& shuffle, const Stmt& s) {
  lowered(s);
  mask(shuffle.mask, s);
  dim(shuffle.lane, 1, s);
  if (!usable(shuffle.value, s) || !define(shuffle.dst, s)) return;
  width(shuffle.value, k_.regs[shuffle.dst].width, s);
  if (dtype(shuffle.value) != k_.regs[shuffle.dst].dtype) find(s, "has another result type");
}

void FormCheck::check(const Ballot& ballot, const Stmt& s) {
  lowered(s);
  mask(ballot.mask, s);
  dims(ballot.condition, 1, s);
  if (define(ballot.dst, s) && k_.regs[ballot.dst] != RegInfo{DType::u32, 1}) find(s, "is no u32");
}

void FormCheck::check(const Sync& sync, const Stmt& s) {
  if (!inside(LoopTag::grid)) find(s, "synchronizes threads outside of a grid loop");
  if (sync.scope >= SyncScope::cluster && cluster_ == 1) find(s, "synchronizes a cluster, but there is none");
  if (sync.left < 0) find(s, "leaves fewer than no groups of copies");
  mask(sync.mask, s);
}

void FormCheck::check(const Reduce& r, const Stmt& s) {
  if (lowered_) find(s, "is a reduction, but the kernel is lowered");
  for (const LoopHead& head : r.loops) enter(head, s);
  const Scope outer = std::exchange(scope_, {});
  statements(r.body);
  bool good = true;
  for (const Operand& o : r.yield) good &= usable(o, s);
  const int w = width_of(k_, s);
  dims(r.guard, w, s);
  leave(outer);
  for (std::size_t i = r.loops.size(); i-- > 0;) exit(r.loops[i]);
  for (const RegId d : r.dst) good &= define(d, s);
  if (good) combination(r, w, s);
}

void FormCheck::combination(const Reduce& r, int w, const Stmt& s) {
  const auto size = static_cast<std::size_t>(tuple_size(r.combiner));
  if (r.dst.size() != size || r.yield.size() != size) return find(s, fmt::format("combines tuples of {}", size));
  for (std::size_t i = 0; i < size; ++i) {
    width(r.yield[i], w, s);
    const RegInfo& d = k_.regs[r.dst[i]];
    if (dtype(r.yield[i]) != d.dtype) find(s, "yields another dtype than its result");
    if (d.width != 1 && d.width != w) find(s, "has a result that is neither one value nor one per lane");
    if (d.width != k_.regs[r.dst[0]].width) find(s, "has results of different widths");
  }
  combiner(r.combiner, r.dst, s);
  const Tree& t = r.tree;
  const bool balanced = t.lanes == 0 && t.chunk == 0;
  const bool chunked = t.lanes >= 1 && t.lanes <= kMaxTreeLanes && t.chunk >= 0 && t.chunk % t.lanes == 0;
  if (!balanced && !chunked) find(s, "has a tree whose chunk is no multiple of its lanes");
}

void FormCheck::combiner(Combiner c, const std::vector<RegId>& dst, const Stmt& s) {
  const DType t = k_.regs[dst[0]].dtype;
  bool good = is_float(t) || is_int(t);
  if (c == Combiner::and_ || c == Combiner::or_) good = t == DType::bool_;
  if (c == Combiner::welford || c == Combiner::max_sum) {
    good = std::all_of(dst.begin(), dst.end(), [&](RegId r) { return is_float(t) && k_.regs[r].dtype == t; });
  } else if (dst.size() == 2) {
    good = good && is_int(k_.regs[dst[1]].dtype);
  }
  if (!good) find(s, fmt::format("cannot combine {} by {}", fusec::to_string(t), to_string(c)));
}

void FormCheck::check(const Scan& scan, const Stmt& s) {
  if (lowered_) find(s, "is a scan, but the kernel is lowered");
  enter(scan.loop, s);
  const Scope outer = std::exchange(scope_, {});
  statements(scan.body);
  const bool good = usable(scan.yield, s) & static_cast<int>(define(scan.dst, s));
  if (good) {
    width(scan.yield, k_.regs[scan.dst].width, s);
    if (dtype(scan.yield) != k_.regs[scan.dst].dtype) find(s, "yields another dtype than its result");
    if (tuple_size(scan.combiner) != 1) return find(s, "scans tuples");
    combiner(scan.combiner, {scan.dst}, s);
  }
  statements(scan.then);
  leave(outer);
  exit(scan.loop);
}

void FormCheck::check(const TransposeTile& t, const Stmt& s) {
  if (!known(t.dst, s) || !known(t.src, s)) return;
  const Buffer &a = k_.buffers[t.dst], &b = k_.buffers[t.src];
  const bool square = a.shape.size() == 2 && a.shape[0] == a.shape[1] && a.shape == b.shape && a.dtype == b.dtype;
  if (!square || a.space != Space::reg || b.space != Space::reg || t.dst == t.src) {
    find(s, "transposes other than two equal square reg buffers");
  }
}

void FormCheck::check(const CopyAsync& c, const Stmt& s) {
  if (!element(c.dst, c.dst_index, 1, s) || !element(c.src, c.src_index, 1, s)) return;
  dims(c.extents, 1, s);
  dims(c.guard, 1, s);
  const Buffer &dst = k_.buffers[c.dst], &src = k_.buffers[c.src];
  if (dst.space != Space::shared || (src.space != Space::in && src.space != Space::scratch)) {
    find(s, "copies other than from global to shared memory");
  }
  if (dst.dtype != src.dtype) find(s, "copies to another dtype");
  if (c.extents.size() > std::min(dst.shape.size(), src.shape.size()))
    find(s, "copies a box of more axes than its buffers");
  if (lowered_ && copied_bytes(k_, c) == 0) find(s, "copies other than 4, 8 or 16 bytes side by side");
}

void FormCheck::check(const Mma& m, const Stmt& s) {
  if (!element(m.a, m.a_index, 1, s) || !element(m.b, m.b_index, 1, s)) return;
  dim(m.lane, 1, s);
  if (!usable(m.c, s) || !define(m.dst, s)) return;
  width(m.c, k_.regs[m.dst].width, s);
  if (k_.regs[m.dst] != RegInfo{DType::f32, static_cast<int>(kMmaResults)}) find(s, "has results other than f32.4");
  if (m.a_index.size() < 2 || m.b_index.size() < 2) return find(s, "has operands that are no matrices");
  const Buffer &a = k_.buffers[m.a], &b = k_.buffers[m.b];
  if (a.space != Space::shared || b.space != Space::shared || a.dtype != b.dtype || !is_16_bit_float(a.dtype))
    find(s, "multiplies dtypes or spaces that it cannot");
  if (m.windows &&
      (m.windows->width < 2 || kMmaTerms % m.windows->width != 0 || m.windows->step < 2 || m.windows->step % 2 != 0))
    find(s, "has windows of a width or a step that it cannot read");
  if (lowered_ && !(m.lane == mod(IndexExpr::symbol(kThread), 32)))
    find(s, "is not run by the thread whose part it computes");
  if (lowered_ && splits_warp_) find(s, "is not run by all threads of a warp");
}

void FormCheck::check(const TileProduct& p, const Stmt& s) {
  if (!element(p.a, p.a_index, 1, s) || !element(p.b, p.b_index, 1, s)) return;
  dims({p.a_pitch, p.b_pitch, p.rows, p.columns, p.terms, p.thread}, 1, s);
  dims(p.sums_index, 1, s);
  if (!known(p.sums, s)) return;
  const Buffer &sums = k_.buffers[p.sums], &a = k_.buffers[p.a], &b = k_.buffers[p.b];
  const std::size_t axes = p.sums_index.size();
  if (sums.space != Space::reg || sums.dtype != DType::f32 || sums.shape.size() != axes + 3)
    return find(s, "has sums that are no tile of f32 in registers");
  const IndexExpr &rows = sums.shape[axes], &groups = sums.shape[axes + 1];
  const bool fits = rows.is_const() && groups.is_const() && rows.value() >= 1 && rows.value() <= 2 &&
                    groups.value() >= 1 && groups.value() <= kMaxTileColumns / kTileColumns;
  if (!fits || !sums.shape[axes + 2].is(4)) find(s, "has sums of a shape that no tile has");
  if (a.space != Space::in || b.space != Space::in || a.dtype != b.dtype || !is_16_bit_float(a.dtype))
    find(s, "multiplies dtypes or spaces that it cannot");
  std::set<SymbolId> symbols;
  for_each_index(s, [&](const IndexExpr& e) {
    if (&e != &p.thread) e.collect_symbols(symbols);
  });
  const bool differs =
      std::any_of(symbols.begin(), symbols.end(), [](SymbolId of) { return of == kThread || of.reg().has_value(); });
  if (lowered_ && (differs || threads_ != kTileThreads || cluster_ != 1 || splits_warp_ || !is_beside_grids()))
    find(s, fmt::format("is not run by all {} threads of a block alike", kTileThreads));
  if (lowered_ && !(p.thread == IndexExpr::symbol(kThread))) find(s, "is not run by the thread whose part it computes");
  if (has_odd_start(p)) find(s, fmt::format("reads what does not begin at a multiple of {} elements", kTileLanes));
}

bool FormCheck::is_beside_grids() const {
  return std::all_of(tags_.begin(), tags_.end(), [](LoopTag tag) { return tag == LoopTag::grid; });
}

bool FormCheck::has_odd_start(const TileProduct& p) const {
  const auto is_odd = [&](const IndexExpr& e) { return with_facts(e, k_).known_divisor() % kTileLanes != 0; };
  const auto is_unaligned = [&](BufferId b) { return k_.buffers[b].alignment % (2 * kTileLanes) != 0; };
  return is_odd(p.a_index.back()) || is_odd(p.b_index.back()) || is_odd(p.a_pitch) || is_odd(p.b_pitch) ||
         is_odd(p.terms) || is_unaligned(p.a) || is_unaligned(p.b) || k_.buffers[p.a].alignment == 0 ||
         k_.buffers[p.b].alignment == 0;
}

}  // namespace fusec::ir

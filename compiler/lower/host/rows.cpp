// SPDX-License-Identifier: Apache-2.0
// Lower for the host: schedules reductions along rows, as lanes that accumulate in order and are combined as a tree,
// and reductions along columns. The order of a sum depends on extents alone, never on batch, threads or vector width.

#include <algorithm>
#include <cmath>

#include "compiler/lower/host/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"
#include "ir/kernel/combiner.h"

namespace fusec::compiler {

using ir::Combiner;
using ir::ScalarOp;

namespace {

// The lanes of the reduction tree, by row length and combiner alone, so that results depend on nothing else. 32 f32
// accumulate side by side, because two AVX-512 registers hide the latency of an addition. Rows that would leave most of
// 32 lanes idle get 16. min and max get 64, because each takes two instructions in a chain.
int tree_lanes(const IndexExpr& row, Combiner combiner) {
  if (row.is_const() && row.value() <= 64) return 16;
  const bool chained = combiner == Combiner::max || combiner == Combiner::min;
  return chained && row.is_const() && row.value() >= 512 ? 64 : 32;
}

// The lanes of a sum over several loops. All loops together decide whether it is short, so it gets at least 32 lanes,
// unless its inner loop has fewer elements than that.
int tree_lanes(const std::vector<LoopHead>& loops, Combiner combiner) {
  const IndexExpr& inner = loops.back().extent;
  const bool fills = !inner.is_const() || inner.value() >= 32;
  return loops.size() > 1 && fills ? std::max(tree_lanes(inner, combiner), 32) : tree_lanes(inner, combiner);
}

// The most additions that one lane makes one after another before its sum goes to the next level, in sums over several
// loops.
constexpr int64_t kMaxAdditions = 128;

// Turns one reduction over unit-stride iterations into lanes that accumulate in order, combined at the end.
class ReduceScheduler {
 public:
  ReduceScheduler(ir::Kernel& kernel, ir::Reduce reduce) : kernel_(kernel), reduce_(std::move(reduce)) {
    dtype_ = kernel_.regs[reduce_.dst[0]].dtype;
    merge_short_loops();
    inner_ = reduce_.loops.back();
    lanes_ = tree_lanes(reduce_.loops, reduce_.combiner);
  }

  void run(Block& out) {
    accumulate(out);
    finish(out);
  }

  // Emits the accumulation; returns the buffer with the lanes of the sum, which are not yet combined.
  ir::BufferId accumulate(Block& out) {
    acc_ = new_lanes("acc");
    const bool is_long = inner_.extent.is_const() && inner_.extent.value() >= 2 * kRowChunk && sums();
    Block passes = is_long ? chunked_passes() : inner_passes();
    reduce_.loops.pop_back();
    // The additions that one lane makes one after another; 0 if not known.
    int64_t chain = !inner_.extent.is_const() ? 0
                    : is_long                 ? kMaxAdditions
                                              : (inner_.extent.value() + lanes_ - 1) / lanes_;
    for (size_t i = reduce_.loops.size(); i-- > 0;) {
      const IndexExpr& extent = reduce_.loops[i].extent;
      const int64_t times = extent.is_const() ? extent.value() : 0;
      const bool is_part = sums() && is_float(dtype_) && (chain * times == 0 || chain * times > kMaxAdditions);
      if (is_part) passes = as_part(std::move(passes));
      chain = is_part ? times : chain * times;
      Block around;
      around.push_back({ir::Loop{reduce_.loops[i], std::move(passes), ir::PhaseBoundary::launches}});
      passes = std::move(around);
    }
    clear(out);
    for (Stmt& stmt : passes) out.push_back(std::move(stmt));
    return acc_;
  }

 private:
  static IndexExpr lane() { return IndexExpr::symbol(ir::kLane); }

  // An inner loop shorter than the lanes would use only as many lanes as it has elements. It is merged with the loop
  // around it, as if all elements were contiguous.
  void merge_short_loops() {
    auto& loops = reduce_.loops;
    if (!sums() || !is_float(dtype_)) return;
    for (std::size_t n = loops.size(); n > 1; n = loops.size()) {
      const LoopHead inner = loops[n - 1], outer = loops[n - 2];
      if (!inner.extent.is_const() || inner.extent.value() >= tree_lanes(inner.extent, reduce_.combiner)) return;
      const VarId v = add_var(kernel_);
      substitute(reduce_.body, outer.var, floordiv(IndexExpr::symbol(v), inner.extent));
      substitute(reduce_.body, inner.var, mod(IndexExpr::symbol(v), inner.extent));
      loops.pop_back();
      loops.back() = {LoopTag::seq, v, outer.extent * inner.extent};
    }
  }

  bool sums() const { return reduce_.combiner == Combiner::add || reduce_.combiner == Combiner::mul; }

  // Sums long rows in chunks: the lanes of each chunk are added to the lanes of the row.
  Block chunked_passes() {
    const ir::BufferId total = acc_;
    acc_ = new_lanes("part");
    const LoopHead row = inner_;
    const int64_t chunks = row.extent.value() / kRowChunk;
    Block result;
    const VarId c = add_var(kernel_), r = add_var(kernel_);
    const Block body = reduce_.body;
    const auto one_chunk = [&](const IndexExpr& start, const IndexExpr& length, VarId var) {
      Block block;
      clear(block);
      reduce_.body = body;
      substitute(reduce_.body, row.var, start + IndexExpr::symbol(var));
      inner_ = {LoopTag::seq, var, length};
      for (Stmt& stmt : inner_passes()) block.push_back(std::move(stmt));
      add_lanes(block, total);
      return block;
    };
    Block whole = one_chunk(IndexExpr(kRowChunk) * IndexExpr::symbol(c), kRowChunk, r);
    result.push_back({ir::Loop{{LoopTag::seq, c, chunks}, std::move(whole), ir::PhaseBoundary::launches}});
    if (row.extent.value() % kRowChunk != 0) {
      acc_ = new_lanes("part");
      Block rest = one_chunk(IndexExpr(kRowChunk * chunks), row.extent.value() % kRowChunk, add_var(kernel_));
      for (Stmt& stmt : rest) result.push_back(std::move(stmt));
    }
    inner_ = row;
    acc_ = total;
    return result;
  }

  // Makes the sum of `passes` one addend of a new sum, which takes its place.
  Block as_part(Block passes) {
    const ir::BufferId total = new_lanes("acc");
    Block part;
    clear(part);
    for (Stmt& stmt : passes) part.push_back(std::move(stmt));
    add_lanes(part, total);
    acc_ = total;
    return part;
  }

  ir::BufferId new_lanes(const std::string& name) {
    return add_buffer(kernel_,
                      {name + std::to_string(kernel_.buffers.size()), ir::Space::reg, dtype_, {lanes_}, {}, 0, ""});
  }

  void add_lanes(Block& out, ir::BufferId to) {
    const RegId a = add_reg(kernel_, dtype_, lanes_), b = add_reg(kernel_, dtype_, lanes_),
                sum = add_reg(kernel_, dtype_, lanes_);
    out.push_back({ir::Load{a, to, {lane()}, {}, ir::Constant{dtype_}, 0}});
    out.push_back({ir::Load{b, acc_, {lane()}, {}, ir::Constant{dtype_}, 0}});
    out.push_back({ir::Let{sum, combining_op(reduce_.combiner), {a, b}}});
    out.push_back({ir::Store{to, {lane()}, sum, {}, ir::StoreHint::none}});
  }

  // Declares the lanes and sets them to the identity of the combiner.
  void clear(Block& out) {
    out.push_back({ir::Alloc{acc_}});
    const RegId init = add_reg(kernel_, dtype_, lanes_);
    const Operand zero = identity_constants(reduce_.combiner, {&dtype_, 1})[0];
    out.push_back({ir::Let{init, ScalarOp::where, {ir::int_constant(DType::bool_, 1), zero, zero}}});
    out.push_back({ir::Store{acc_, {lane()}, init, {}, ir::StoreHint::none}});
  }

  Block inner_passes() {
    Block result;
    const IndexExpr full = floordiv(inner_.extent, lanes_);
    if (!full.is(0)) {
      const VarId v = add_var(kernel_);
      Block main = pass(IndexExpr(lanes_) * IndexExpr::symbol(v), {});
      result.push_back({ir::Loop{{LoopTag::seq, v, full}, std::move(main), ir::PhaseBoundary::launches}});
    }
    if (divisible_by(kernel_, inner_.extent, lanes_)) return result;
    const IndexExpr done = IndexExpr(lanes_) * full;
    Block rest = pass(done, {inner_.extent - 1 - done - lane()});
    const IndexExpr times = ceildiv(inner_.extent, lanes_) - full;
    result.push_back({ir::Loop{{LoopTag::seq, add_var(kernel_), times}, std::move(rest), ir::PhaseBoundary::launches}});
    return result;
  }

  // Emits one vector of iterations: the body, then acc = acc (+) yield.
  Block pass(const IndexExpr& base, const ir::Guard& guard) {
    Block with_yield = reduce_.body;
    with_yield.push_back({ir::Reduce{{}, reduce_.combiner, {}, {}, {}, reduce_.yield, {}}});  // carries the yield along
    Block block = clone(kernel_, with_yield);
    vectorize(kernel_, block, inner_.var, lanes_, base);
    const Operand yield = std::get<ir::Reduce>(block.back().v).yield[0];
    block.pop_back();
    const RegId before = add_reg(kernel_, dtype_, lanes_), after = add_reg(kernel_, dtype_, lanes_);
    block.push_back({ir::Load{before, acc_, {lane()}, {}, ir::Constant{dtype_}, 0}});
    block.push_back({ir::Let{after, combining_op(reduce_.combiner), {before, yield}}});
    block.push_back({ir::Store{acc_, {lane()}, after, {}, ir::StoreHint::none}});
    if (!guard.empty()) {
      add_guard(kernel_, block, guard);
      for (Stmt& stmt : block)  // the accumulator needs no guard
        if (auto* load = std::get_if<ir::Load>(&stmt.v); load != nullptr && load->buffer == acc_) load->guard.clear();
    }
    return block;
  }

  void finish(Block& out) {
    ir::Reduce last{reduce_.dst, reduce_.combiner, {lanes_, 0}, {}, {}, {}, {}};
    const RegId lanes = add_reg(kernel_, dtype_, lanes_);
    last.body.push_back({ir::Load{lanes, acc_, {lane()}, {}, ir::Constant{dtype_}, 0}});
    last.yield = {lanes};
    out.push_back({std::move(last)});
  }

  ir::Kernel& kernel_;
  ir::Reduce reduce_;
  LoopHead inner_;
  int lanes_ = 0;
  DType dtype_;
  ir::BufferId acc_;
};

}  // namespace

ir::BufferId accumulate_row(ir::Kernel& kernel, ir::Reduce reduce, Block& out) {
  return ReduceScheduler(kernel, std::move(reduce)).accumulate(out);
}

void vectorize_loops(const Scheduling& s, Stmt stmt, Block& out) {
  PerfectNest nest = peel_loops(std::move(stmt));
  const LoopHead inner = nest.heads.back();
  nest.heads.pop_back();
  const int lanes = lanes_in_flight(s, nest.body, inner.extent);
  Block body =
      vector_loops(s.kernel, nest.body, inner.var, 0, inner.extent, lanes, divisible_by(s.kernel, inner.extent, lanes));
  if (nest.heads.empty()) {
    for (Stmt& inner_stmt : body) out.push_back(std::move(inner_stmt));
  } else {
    out.push_back(rebuild_loops(nest.heads, std::move(body)));
  }
}

namespace {

void schedule_row(const Scheduling& s, Block body, Block& row) {
  for (Stmt& stmt : body) {
    auto* reduce = std::get_if<ir::Reduce>(&stmt.v);
    auto* loop = std::get_if<ir::Loop>(&stmt.v);
    if (reduce != nullptr && tuple_size(reduce->combiner) == 1 &&
        !reduce->loops.empty()) {  // axes of extent 1 have no loop
      ReduceScheduler(s.kernel, std::move(*reduce)).run(row);
    } else if (reduce != nullptr && schedule_search(s.kernel, *reduce, row)) {
      continue;
    } else if (loop != nullptr && has_reduction(loop->body)) {
      Block part;
      schedule_row(s, std::move(loop->body), part);
      row.push_back({ir::Loop{loop->head, std::move(part), loop->boundary}});
    } else if (loop != nullptr) {
      vectorize_loops(s, std::move(stmt), row);
    } else {
      row.push_back(std::move(stmt));
    }
  }
}

}  // namespace

Block schedule_rows(const Scheduling& s, PerfectNest nest) {
  if (auto groups = schedule_row_groups(s, nest)) return std::move(*groups);
  for (LoopHead& head : nest.heads) head.tag = LoopTag::grid;
  Block row;
  schedule_row(s, std::move(nest.body), row);
  Block result;
  result.push_back(rebuild_loops(nest.heads, std::move(row)));
  return result;
}

Block schedule_columns(const Scheduling& s, PerfectNest nest, VarId along) {
  sum_in_levels(s.kernel, nest.body);
  const auto it = std::find_if(nest.heads.begin(), nest.heads.end(), [&](const LoopHead& h) { return h.var == along; });
  const LoopHead columns = *it;
  nest.heads.erase(it);
  int lanes = lanes_for(s.kernel, nest.body, s.target);
  while (lanes < 64 && (!columns.extent.is_const() || columns.extent.value() >= 2 * lanes)) lanes *= 2;
  const VarId g = add_var(s.kernel);
  const IndexExpr base = IndexExpr(lanes) * IndexExpr::symbol(g);
  vectorize(s.kernel, nest.body, columns.var, lanes, base);
  if (!divisible_by(s.kernel, columns.extent, lanes))
    add_guard(s.kernel, nest.body, {columns.extent - 1 - base - IndexExpr::symbol(ir::kLane)});
  nest.heads.push_back({LoopTag::grid, g, ceildiv(columns.extent, lanes)});
  for (LoopHead& head : nest.heads) head.tag = LoopTag::grid;
  Block result;
  result.push_back(rebuild_loops(nest.heads, std::move(nest.body)));
  return result;
}

}  // namespace fusec::compiler

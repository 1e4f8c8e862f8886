// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: finds the chunks of long rows, and makes the code for a thread's accesses to them and for reductions
// over a block's share of a row.

#include "compiler/lower/cuda/row_chunks.h"

#include <algorithm>

#include "compiler/lower/cuda/row_parts.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

constexpr int64_t kMaxChunks = 65536;   // chunks of longer rows have more steps
constexpr int64_t kTupleElements = 32;  // of which a thread makes one tuple: 1,024 threads have registers for them

ir::Guard inside(const Chunks& chunks, const RowPlace& p) {
  return {IndexExpr(chunks.length - chunks.lanes) - p.number * chunks.lanes};
}

// The body for one access, followed by a statement that carries its yields, as wide as an access.
Block build_yields(ir::Kernel& kernel, const ir::Reduce& row, const Chunks& chunks, const RowPlace& p) {
  Block body = row.body;
  body.push_back({ir::Reduce{{}, row.combiner, {}, {}, {}, row.yield, {}}});
  body = accessed(kernel, row.loops, body, chunks, p);
  Stmt carrier = std::move(body.back());
  body.pop_back();
  for (size_t i = 0; i < row.dst.size(); ++i) {
    Operand& yield = std::get<ir::Reduce>(carrier.v).yield[i];
    if (width_of(kernel, yield) == chunks.lanes) continue;
    const RegId wide = add_reg(kernel, kernel.regs[row.dst[i]].dtype, chunks.lanes);
    body.push_back({ir::Let{wide, ir::ScalarOp::where, {ir::int_constant(DType::bool_, 1), yield, yield}}});
    yield = wide;
  }
  body.push_back(std::move(carrier));
  return body;
}

// Reduces a block's share of a row to tuples. Each thread makes one tuple of its elements of a chunk; where accesses
// are narrow and the order is free, of several chunks, which it loads at once.
Stmt tuple_reduction(ir::Kernel& kernel, const ir::Reduce& row, Slices slices, VarId slice) {
  Chunks chunks = find_chunks(kernel, row.loops, row.body);
  const bool joins = narrowness_of(kernel, row) > 1 && is_order_free(kernel, row);
  while (joins && slices.chunks > 1 && 2 * chunks.steps * chunks.lanes <= kTupleElements)
    slices.chunks /= 2, chunks.steps *= 2;
  RowPlace p = place_of(kernel, chunks, slices, slice);
  if (joins && chunks.steps * chunks.lanes <= kTupleElements) p.heads.back().tag = LoopTag::unroll;
  ir::Reduce group = row;
  group.loops.clear();
  for (size_t i = 1; i < 4; ++i)
    if (!p.heads[i].extent.is(1)) group.loops.push_back(p.heads[i]);
  group.tree = {kWarp, kWarp};
  group.body.clear();
  const ThreadElements elements{build_yields(kernel, row, chunks, p), p.heads.back(), chunks.lanes, inside(chunks, p)};
  group.yield = reduce_to_tuple(kernel, row.combiner, elements, group.body);
  return {std::move(group)};
}

}  // namespace

Chunks find_chunks(const ir::Kernel& kernel, const std::vector<LoopHead>& loops, const Block& body) {
  Chunks c;
  IndexExpr length = 1;
  for (const LoopHead& head : loops) length *= head.extent;
  c.length = length.value();
  c.lanes = lanes_of_access(kernel, body, loops.back().var);
  while (c.lanes > 1 && !divisible_by(kernel, loops.back().extent, c.lanes)) c.lanes /= 2;
  const int64_t line = int64_t{kWarp} * c.lanes;
  c.steps = std::max(kMinSteps, ceil_power(ceil_div(c.length, line * kMaxChunks)));
  c.count = ceil_div(c.length, line * c.steps);
  return c;
}

RowPlace place_of(ir::Kernel& kernel, const Chunks& chunks, const Slices& slices, VarId slice) {
  RowPlace p{slice, add_var(kernel), add_var(kernel), add_var(kernel), add_var(kernel), 0, {}};
  const auto symbol = [](VarId var, int64_t extent) { return extent > 1 ? IndexExpr::symbol(var) : IndexExpr(0); };
  const IndexExpr warp = symbol(slice, slices.count) * slices.warps + symbol(p.w, slices.warps);
  const IndexExpr chunk = warp * slices.chunks + symbol(p.c, slices.chunks);
  p.number = (chunk * chunks.steps + IndexExpr::symbol(p.j)) * kWarp + IndexExpr::symbol(p.l);
  p.heads = {{LoopTag::grid, slice, slices.count},
             {LoopTag::block, p.w, slices.warps},
             {LoopTag::unroll, p.c, slices.chunks},
             {LoopTag::block, p.l, kWarp},
             {chunks.steps <= kStepsUnrolled ? LoopTag::unroll : LoopTag::seq, p.j, chunks.steps}};
  return p;
}

bool moves(const std::vector<IndexExpr>& index, const RowPlace& p) {
  return uses_any(index, p.heads) ||
         std::any_of(index.begin(), index.end(), [](const IndexExpr& d) { return d.uses(ir::kLane); });
}

bool uses_any(const std::vector<IndexExpr>& index, const std::vector<LoopHead>& heads) {
  return std::any_of(index.begin(), index.end(), [&](const IndexExpr& d) {
    return std::any_of(heads.begin(), heads.end(), [&](const LoopHead& head) { return d.uses(head.var); });
  });
}

Block accessed(ir::Kernel& kernel, const std::vector<LoopHead>& loops, const Block& body, const Chunks& chunks,
               const RowPlace& p) {
  Block block = clone(kernel, body);
  std::vector<LoopHead> accesses = loops;
  accesses.back().extent = floordiv(accesses.back().extent, chunks.lanes);
  const Linear where = linearize(accesses, p.number);
  const IndexExpr at = where.values.at(accesses.back().var) * chunks.lanes;
  if (chunks.lanes > 1) {
    vectorize(kernel, block, accesses.back().var, chunks.lanes, at);
  } else {
    substitute(block, accesses.back().var, at);
  }
  for (size_t i = 0; i + 1 < loops.size(); ++i) substitute(block, loops[i].var, where.values.at(loops[i].var));
  const ir::IndexRanges ranges = ir::compute_ranges(p.heads, chunks.lanes);
  const auto access = [&](auto& a, bool takes_data) {
    for (IndexExpr& d : a.index) d = simplify(d, ranges);
    if (!moves(a.index, p) && !moves(a.guard, p) && !takes_data) return;
    for (const IndexExpr& g : inside(chunks, p)) a.guard.push_back(g);
  };
  for_each_stmt(block, [&](Stmt& stmt) {
    if (auto* load = std::get_if<ir::Load>(&stmt.v)) access(*load, load->clamp != 0);
    if (auto* store = std::get_if<ir::Store>(&stmt.v)) access(*store, false);
  });
  return block;
}

bool is_order_free(const ir::Kernel& kernel, const ir::Reduce& reduce) {
  switch (reduce.combiner) {
    case ir::Combiner::add:
    case ir::Combiner::mul:
      return !is_float(kernel.regs[reduce.dst[0]].dtype);
    case ir::Combiner::welford:
    case ir::Combiner::max_sum:
      return false;
    default:
      return true;
  }
}

int64_t narrowness_of(const ir::Kernel& kernel, const ir::Reduce& reduce) {
  const Chunks chunks = find_chunks(kernel, reduce.loops, reduce.body);
  return lanes_of_access(kernel, reduce.body, reduce.loops.back().var) / chunks.lanes;
}

Stmt reduce_share(ir::Kernel& kernel, const ir::Reduce& row, const Slices& slices, VarId slice, bool backward) {
  if (makes_tuples(kernel, row)) return tuple_reduction(kernel, row, slices, slice);
  const Chunks chunks = find_chunks(kernel, row.loops, row.body);
  RowPlace p = place_of(kernel, chunks, slices, slice);
  if (backward)
    p.number = p.number.substitute(
        {{p.c, slices.chunks - 1 - IndexExpr::symbol(p.c)}, {p.j, chunks.steps - 1 - IndexExpr::symbol(p.j)}});
  const bool in_order = !is_order_free(kernel, row);
  ir::Reduce own = row;
  own.loops = {p.heads.back()};
  if (!in_order) own.loops = {{LoopTag::seq, p.c, slices.chunks}, own.loops[0]};
  own.tree = {};
  own.guard = inside(chunks, p);
  own.body = build_yields(kernel, row, chunks, p);
  own.yield = std::get<ir::Reduce>(own.body.back().v).yield;
  own.body.pop_back();
  for (RegId& dst : own.dst) dst = add_reg(kernel, kernel.regs[dst].dtype, chunks.lanes);
  ir::Reduce group = row;
  group.loops.clear();
  for (size_t i = 1; i < 4; ++i)
    if (!p.heads[i].extent.is(1) && (in_order || p.heads[i].var != p.c)) group.loops.push_back(p.heads[i]);
  group.tree = {int64_t{chunks.lanes} * kWarp, int64_t{chunks.lanes} * kWarp};
  group.guard.clear();
  group.yield.assign(own.dst.begin(), own.dst.end());
  group.body.clear();
  group.body.push_back({std::move(own)});
  return {std::move(group)};
}

}  // namespace fusec::compiler

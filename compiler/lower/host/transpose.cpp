// SPDX-License-Identifier: Apache-2.0
// Lower for the host: schedules nests that load along one axis and store along another, in square tiles that are
// transposed in registers. Parts that no tile covers are scheduled pointwise.

#include <algorithm>

#include "compiler/lower/host/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

// The largest part of a loop that square tiles cover, and the remainder.
struct Split {
  IndexExpr tiled, rest;
};

Split split(const ir::Kernel& kernel, const IndexExpr& extent, int tile) {
  if (divisible_by(kernel, extent, tile)) return {extent, 0};
  const IndexExpr tiled = IndexExpr(tile) * floordiv(extent, tile);
  return {tiled, extent - tiled};
}

// Restricts one loop of the nest to start <= var < start + extent.
PerfectNest part(ir::Kernel& kernel, const PerfectNest& nest, VarId var, const IndexExpr& start,
                 const IndexExpr& extent) {
  PerfectNest result{nest.heads, clone(kernel, nest.body)};
  for (LoopHead& head : result.heads)
    if (head.var == var) head.extent = extent;
  if (!start.is(0)) substitute(result.body, var, start + IndexExpr::symbol(var));
  return result;
}

class Tile {
 public:
  Tile(const Scheduling& s, const PerfectNest& nest, VarId across, int size)
      : s_(s), nest_(nest), along_(nest.heads.back().var), across_(across), size_(size) {}

  // Emits one tile: `size` rows of the across loop from `row` on, and as many columns of the inner loop from `column`
  // on.
  Block body(const IndexExpr& row, const IndexExpr& column) {
    Block result;
    Block work = clone(s_.kernel, nest_.body);
    for (Stmt& stmt : work) {
      auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load == nullptr || !is_strided(*load)) continue;
      const BufferId transposed = turn(*load, row, column, result);
      *load = ir::Load{load->dst, transposed,      {IndexExpr::symbol(row_var_), IndexExpr::symbol(along_) - column},
                       {},        load->otherwise, 0};
    }
    // Elements that are strided both ways are loaded one by one. size * size such loads are too much code to unroll.
    const bool scatters = std::any_of(work.begin(), work.end(), [&](const Stmt& stmt) { return is_scattered(stmt); });
    substitute(work, across_, row + IndexExpr::symbol(row_var_));
    vectorize(s_.kernel, work, along_, size_, column);
    result.push_back({ir::Loop{
        {scatters ? LoopTag::seq : LoopTag::unroll, row_var_, size_}, std::move(work), ir::PhaseBoundary::launches}});
    return result;
  }

  bool is_strided(const ir::Load& load) const {
    if (load.index.size() != 1) return false;
    const auto affine = affine_in(load.index[0], {across_, along_});
    return affine && affine->coefficient(across_).is(1) && !affine->coefficient(along_).is(0);
  }

 private:
  // Whether the lanes of a load are neither one element nor contiguous.
  bool is_scattered(const Stmt& stmt) const {
    const auto* load = std::get_if<ir::Load>(&stmt.v);
    if (load == nullptr || load->index.empty() || s_.kernel.buffers[load->buffer].space == ir::Space::reg) return false;
    const auto affine = affine_in(load->index.back(), {along_});
    return !affine || !(affine->coefficient(along_).is(0) || affine->coefficient(along_).is(1));
  }

  // Loads size rows along `across` and transposes them in registers.
  BufferId turn(const ir::Load& load, const IndexExpr& row, const IndexExpr& column, Block& out) {
    if (!row_var_.valid()) row_var_ = add_var(s_.kernel);
    const BufferId read = tile_buffer(load), transposed = tile_buffer(load);
    out.push_back({ir::Alloc{read}});
    out.push_back({ir::Alloc{transposed}});
    const VarId u = add_var(s_.kernel);
    Block rows;
    ir::Load wide = load;
    wide.dst = add_reg(s_.kernel, s_.kernel.regs[load.dst].dtype, size_);
    const auto turned_dim = [&](const IndexExpr& d) {
      return d.substitute({{across_, row + IndexExpr::symbol(ir::kLane)}, {along_, column + IndexExpr::symbol(u)}});
    };
    for (IndexExpr& d : wide.index) d = turned_dim(d);
    for (IndexExpr& d : wide.guard) d = turned_dim(d);
    rows.push_back({wide});
    rows.push_back(
        {ir::Store{read, {IndexExpr::symbol(u), IndexExpr::symbol(ir::kLane)}, wide.dst, {}, ir::StoreHint::none}});
    out.push_back({ir::Loop{{LoopTag::unroll, u, size_}, std::move(rows), ir::PhaseBoundary::launches}});
    out.push_back({ir::TransposeTile{transposed, read}});
    return transposed;
  }

  BufferId tile_buffer(const ir::Load& load) {
    const std::string name = "tile" + std::to_string(s_.kernel.buffers.size());
    return add_buffer(s_.kernel, {name, ir::Space::reg, s_.kernel.regs[load.dst].dtype, {size_, size_}, {}, 0, ""});
  }

  const Scheduling& s_;
  const PerfectNest& nest_;
  VarId along_, across_;
  int size_;
  VarId row_var_;
};

}  // namespace

Block schedule_transpose(const Scheduling& s, PerfectNest nest, VarId across) {
  const int size = lanes_for(s.kernel, nest.body, s.target);
  const LoopHead inner = nest.heads.back();
  const LoopHead other =
      *std::find_if(nest.heads.begin(), nest.heads.end(), [&](const LoopHead& h) { return h.var == across; });
  const Split rows = split(s.kernel, other.extent, size), columns = split(s.kernel, inner.extent, size);
  Block result;
  if (!rows.tiled.is(0) && !columns.tiled.is(0)) {
    // A task is one strip of columns. It walks along the loads, where the hardware prefetches, and stores whole cache
    // lines, two in a row where the extent allows.
    std::vector<LoopHead> heads;
    const int group = divisible_by(s.kernel, columns.tiled, 2 * size) ? 2 : 1;
    const VarId r = add_var(s.kernel), c = add_var(s.kernel), u = add_var(s.kernel);
    for (const LoopHead& head : nest.heads)
      if (head.var != across && head.var != inner.var) heads.push_back({LoopTag::grid, head.var, head.extent});
    heads.push_back({LoopTag::grid, c, floordiv(inner.extent, group * size)});
    heads.push_back({LoopTag::seq, r, floordiv(other.extent, size)});
    if (group > 1) heads.push_back({LoopTag::unroll, u, group});
    const IndexExpr column = IndexExpr(group * size) * IndexExpr::symbol(c) +
                             (group > 1 ? IndexExpr(size) * IndexExpr::symbol(u) : IndexExpr(0));
    Block tile = Tile(s, nest, across, size).body(IndexExpr(size) * IndexExpr::symbol(r), column);
    result.push_back(rebuild_loops(heads, std::move(tile)));
  }
  if (!columns.rest.is(0) && !rows.tiled.is(0)) {
    PerfectNest edge =
        part(s.kernel, part(s.kernel, nest, inner.var, columns.tiled, columns.rest), across, 0, rows.tiled);
    append(result, schedule_pointwise(s, std::move(edge)));
  }
  if (!rows.rest.is(0)) append(result, schedule_pointwise(s, part(s.kernel, nest, across, rows.tiled, rows.rest)));
  return result;
}

}  // namespace fusec::compiler

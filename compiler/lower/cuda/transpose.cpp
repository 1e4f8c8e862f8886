// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: schedules nests that load along one axis and store along another. Tiles of 32 x 32 elements go
// through shared memory, so that loads and stores both access runs of 32 elements.

#include <algorithm>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

constexpr int kTile = 32;
constexpr int kWarps = 8;

class TransposeSchedule {
 public:
  TransposeSchedule(const Scheduling& s, PerfectNest nest, VarId across)
      : s_(s), k_(s.kernel), nest_(std::move(nest)), along_(nest_.heads.back()) {
    for (const LoopHead& head : nest_.heads)
      if (head.var == across) across_ = head;
  }

  Block run() {
    const VarId i = add_var(k_), j = add_var(k_);
    std::vector<LoopHead> grid;
    for (const LoopHead& head : nest_.heads)
      if (head.var != across_.var && head.var != along_.var) grid.push_back({LoopTag::grid, head.var, head.extent});
    grid.push_back({LoopTag::grid, i, ceildiv(across_.extent, kTile)});
    grid.push_back({LoopTag::grid, j, ceildiv(along_.extent, kTile)});
    row_ = IndexExpr(kTile) * IndexExpr::symbol(i), column_ = IndexExpr(kTile) * IndexExpr::symbol(j);
    Block body, fill, work = nest_.body;
    for (Stmt& stmt : work) {
      auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load == nullptr || !is_strided(*load)) continue;
      const BufferId tile = tile_for(*load);
      body.push_back({ir::Alloc{tile}});
      const ir::RegId value = add_reg(k_, k_.regs[load->dst].dtype);
      ir::Load from = *load;
      from.dst = value;
      fill.push_back({from});
      fill.push_back({ir::Store{tile,
                                {IndexExpr::symbol(along_.var) - column_, IndexExpr::symbol(across_.var) - row_},
                                value,
                                {},
                                ir::StoreHint::none}});
      *load = ir::Load{
          load->dst,       tile, {IndexExpr::symbol(along_.var) - column_, IndexExpr::symbol(across_.var) - row_}, {},
          load->otherwise, 0};
    }
    body.push_back(over_tile(std::move(fill), column_, along_, row_, across_));
    body.push_back(over_tile(std::move(work), row_, across_, column_, along_));
    Block result;
    result.push_back(rebuild_loops(grid, std::move(body)));
    return result;
  }

 private:
  bool is_strided(const ir::Load& load) const {
    if (load.index.size() != 1 || !load.guard.empty()) return false;
    const auto affine = affine_in(load.index[0], {across_.var, along_.var});
    return affine && affine->coefficient(across_.var).is(1) && !affine->coefficient(along_.var).is(0);
  }

  BufferId tile_for(const ir::Load& load) {
    const std::string name = "tile" + std::to_string(k_.buffers.size());
    return add_buffer(k_, {name, ir::Space::shared, k_.regs[load.dst].dtype, {kTile, kTile}, {}, 0, "pitch 33"});
  }

  // Runs `body` for every element of the tile that exists. The threads of a warp go along `inner`, which begins at
  // `inner_start`.
  Stmt over_tile(Block body, const IndexExpr& outer_start, const LoopHead& outer, const IndexExpr& inner_start,
                 const LoopHead& inner) {
    const VarId w = add_var(k_), l = add_var(k_), u = add_var(k_);
    const IndexExpr o = outer_start + IndexExpr::symbol(w) + IndexExpr(kWarps) * IndexExpr::symbol(u),
                    n = inner_start + IndexExpr::symbol(l);
    body = clone(k_, body);
    substitute(body, outer.var, o);
    substitute(body, inner.var, n);
    if (!divisible_by(k_, inner.extent, kTile)) body = once(inner.extent - n, std::move(body));
    if (!divisible_by(k_, outer.extent, kTile)) body = once(outer.extent - o, std::move(body));
    return rebuild_loops(
        {{LoopTag::block, w, kWarps}, {LoopTag::block, l, kTile}, {LoopTag::unroll, u, kTile / kWarps}},
        std::move(body));
  }

  Block once(const IndexExpr& condition, Block body) {
    Block result;
    result.push_back(only_if(k_, condition, std::move(body)));
    return result;
  }

  const Scheduling& s_;
  ir::Kernel& k_;
  PerfectNest nest_;
  LoopHead along_, across_;
  IndexExpr row_, column_;
};

}  // namespace

Block cuda_transpose(const Scheduling& s, PerfectNest nest, VarId across) {
  return TransposeSchedule(s, std::move(nest), across).run();
}

}  // namespace fusec::compiler

// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: schedules matrix products of 16-bit floats with what surrounds them.
//
//   y[.., m, n] = f(sum over k of f32(a[.., m, k]) * f32(b[.., n, k]), ...)
//
// A thread block computes a tile of rows m and columns n. It loads its part of a, which other ops may have to make
// first, and of b to shared memory, its warps multiply these by matrix instructions, and their results go through
// shared memory, too: f is then computed along rows, 8 elements at a time. Where k does not fit, it is taken in chunks.
//
// The order of a sum depends on the number of its terms alone: it is that of the matrix instructions. In exact numerics
// partition keeps products and sums apart, so there is nothing to schedule here.

#include <algorithm>
#include <numeric>
#include <set>

#include "compiler/lower/cuda/product_parts.h"
#include "compiler/lower/cuda/product_tiles.h"
#include "compiler/lower/cuda/tile_walk.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

constexpr int64_t kMaxLanes = 8;  // elements of an access of 16 bytes
constexpr int64_t kLines = 2;     // of windows of a block; 4 were no faster for 64 images, and slower for one

class ProductSchedule {
 public:
  ProductSchedule(const Scheduling& s, const PerfectNest& nest) : s_(s), k_(s.kernel), nest_(nest) {
    if (nest_.heads.empty()) return;
    known_ = known_of_matrix();
    put_extents(nest_, known_);
  }

  bool suits() {
    if (!find_parts()) return false;
    find_windows();
    // Without libraries: its tiles have rows of one loop alone, which may be short, and a block has all terms.
    if (s_.multiplies && !shape_.in_place() && (nest_.heads.size() > 2 || divides_terms(s_, shape_, rows())))
      return false;
    if (!choose_tiles()) return false;
    find_turns();
    return true;
  }

  Block run() {
    put_extents(k_, known_);
    const VarId i = add_var(k_), j = add_var(k_);
    row0_ = IndexExpr::symbol(i) * tiles_.rows, column0_ = IndexExpr::symbol(j) * tiles_.columns;
    const DType dtype = k_.regs[p_.left].dtype;
    a_ = {shape_.in_place() ? BufferId() : add_tile(k_, "A", dtype, tiles_.rows, tiles_.chunk + kTilePad, tiles_.chunk),
          p_.left,
          p_.m,
          tiles_.rows,
          1,
          {},
          {}};
    b_ = {add_tile(k_, "B", dtype, tiles_.columns, tiles_.chunk + kTilePad, tiles_.chunk),
          p_.right,
          p_.n,
          tiles_.columns,
          1,
          {},
          {}};
    Block filled;
    if (shape_.patches) filled.push_back(fill_windows());
    a_.work = shape_.patches ? read_patches() : p_.closure(p_.left), b_.work = p_.closure(p_.right);
    a_.lanes = left_lanes_, b_.lanes = in_lanes_;
    for (Factor* f : {&a_, &b_})
      f->walk =
          make_walk(k_, threads(), f->rows, tiles_.chunk / f->lanes, f->lanes, !lies_along_terms(p_.closure(f->value)));
    results_ = add_tile(k_, "C", DType::f32, tiles_.kept_rows(), tiles_.columns + kTilePad, tiles_.columns);
    warps_ = {{LoopTag::block, add_var(k_), tiles_.row_warps},
              {LoopTag::block, add_var(k_), tiles_.column_warps},
              {LoopTag::block, add_var(k_), kWarp}};
    rows_of_warp_ = {LoopTag::unroll, add_var(k_), tiles_.rows / tiles_.row_warps / ir::kMmaRows};
    columns_of_warp_ = {LoopTag::unroll, add_var(k_), tiles_.columns / tiles_.column_warps / ir::kMmaColumns};
    ir::IndexShape held;
    for (const TileAxis& axis : used_axes(warps_)) held.push_back(axis.extent);
    held.insert(held.end(), {rows_of_warp_.extent, columns_of_warp_.extent, ir::kMmaResults});
    sums_ = add_buffer(k_, {"sums", ir::Space::reg, DType::f32, std::move(held), {}, 0, ""});
    Block body;
    for (const BufferId id : {a_.tile, b_.tile, results_, sums_, windows_})
      if (id.valid()) body.push_back({ir::Alloc{id}});
    append(filled, sum(add_var(k_)));
    filled.push_back(finish());
    append(body, turns_ ? take_turns(std::move(filled)) : std::move(filled));
    Block result;
    result.push_back(rebuild_loops(grid(i, j), std::move(body)));
    return result;
  }

 private:
  static IndexExpr lane() { return IndexExpr::symbol(ir::kLane); }

  // --- the parts of the nest ---------------------------------------------------------------------------------------

  // The extents of the columns and terms that are known: tiles depend on them.
  KnownExtents known_of_matrix() const {
    std::set<ir::SymbolId> symbols;
    nest_.heads.back().extent.collect_symbols(symbols);
    for (const Stmt& stmt : nest_.body)
      if (const auto* reduce = std::get_if<ir::Reduce>(&stmt.v))
        for (const LoopHead& head : reduce->loops) head.extent.collect_symbols(symbols);
    KnownExtents known = known_extents(s_);
    std::erase_if(known, [&](const auto& extent) { return !symbols.contains(extent.first); });
    return known;
  }

  bool find_parts() {
    if (s_.target.sm < ir::kFirstMmaSm) return false;
    auto parts = find_product_parts(k_, nest_);
    if (!parts) return false;
    p_ = *std::move(parts);
    return is_of_known_extents();
  }

  // Whether what the value is loaded from lies side by side along the terms, as rows of a matrix do and patches do not.
  bool lies_along_terms(const Block& block) const {
    return std::all_of(block.begin(), block.end(), [&](const Stmt& stmt) {
      const auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load == nullptr || !mentions(stmt, p_.term.var)) return true;
      const auto affine = affine_in(load->index.back(), {p_.term.var});
      return affine && affine->coefficient(p_.term.var).is(1);
    });
  }

  bool is_of_known_extents() {
    const auto terms = known_value(s_, p_.term.extent), columns = known_value(s_, p_.n.extent);
    if (!terms || !columns || *terms < 2 || *terms % 2 != 0 || *columns % 2 != 0) return false;
    shape_.terms = *terms, shape_.columns = *columns;
    in_lanes_ = std::gcd(shape_.terms, kMaxLanes), out_lanes_ = std::gcd(shape_.columns, kMaxLanes);
    left_lanes_ = in_lanes_;
    return true;
  }

  void find_windows() {
    const Block left = p_.closure(p_.left);
    if (lies_along_terms(left) || !p_.m) return;
    shape_.patches = find_patches(k_, left, *p_.m, {LoopTag::seq, p_.term.var, shape_.terms});
    if (!shape_.patches) return;
    left_lanes_ = std::gcd(in_lanes_, shape_.patches->width);
    if (!shape_.patches->overlap()) shape_.patches.reset();
  }

  // --- tiles -------------------------------------------------------------------------------------------------------

  // The number of rows of all products.
  IndexExpr rows() const {
    IndexExpr count = 1;
    for (const LoopHead& head : nest_.heads)
      if (head.var != p_.n.var) count *= head.extent;
    return count;
  }

  bool choose_tiles() {
    const auto tiles = choose_product_tiles(s_, shape_, rows(), p_.m);
    if (tiles) tiles_ = *tiles;
    return tiles.has_value();
  }

  int64_t threads() const { return tiles_.threads(); }

  std::vector<LoopHead> grid(VarId i, VarId j) const {
    std::vector<LoopHead> heads;
    for (const LoopHead& head : nest_.heads)
      if (turns_ && head.var == turns_->head.var) {
        heads.push_back({LoopTag::grid, turns_->block, *head.extent.exact_div(turns_->count)});
      } else if (head.var != p_.n.var && (!p_.m || head.var != p_.m->var)) {
        heads.push_back({LoopTag::grid, head.var, head.extent});
      }
    heads.push_back({LoopTag::grid, i, p_.m ? ceildiv(p_.m->extent, tiles_.rows) : IndexExpr(1)});
    heads.push_back({LoopTag::grid, j, (shape_.columns + tiles_.columns - 1) / tiles_.columns});
    return heads;
  }

  // --- from memory to tiles ----------------------------------------------------------------------------------------

  // A factor of the product: `value` for a tile of rows of the loop `along`.
  struct Factor {
    BufferId tile;
    RegId value;
    std::optional<LoopHead> along;
    int64_t rows = 0;
    int64_t lanes = 1;
    Block work;  // that makes the value
    TileWalk walk;
  };

  // What makes the access of the factor's walk in the tile that begins at a row and a term.
  Block make(const Factor& f, const IndexExpr& row0, const IndexExpr& term0) {
    const IndexExpr row = f.walk.row(), column = f.walk.column();
    Block work = f.work;
    work.push_back(
        {ir::Store{f.tile, {row, IndexExpr::symbol(p_.term.var) - term0}, f.value, {}, ir::StoreHint::none}});
    work = clone(k_, work);
    const bool has_tail = shape_.terms % tiles_.chunk != 0 && !(shape_.patches && f.value == p_.left);
    const bool computes = !keeps_zeros(f.work);  // behind the last term, where loads yield 0, the value may be another
    const IndexExpr left = IndexExpr(shape_.terms) - f.lanes - term0 - column;  // behind the access
    for (Stmt& stmt : work) {
      ir::Guard guard;
      if (f.along && !divisible_by(k_, f.along->extent, f.rows)) guard.push_back(f.along->extent - 1 - row0 - row);
      if (has_tail) guard.push_back(left);
      auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load != nullptr && k_.buffers[load->buffer].space != ir::Space::shared) guard_load(k_, *load, guard);
      if (auto* store = std::get_if<ir::Store>(&stmt.v); store != nullptr && has_tail && computes)
        store->guard.push_back(left);
    }
    if (f.along) substitute(work, f.along->var, row0 + row);
    vectorize(k_, work, p_.term.var, static_cast<int>(f.lanes), term0 + column);
    // What stands behind the last term could be no number.
    if (has_tail && computes) add_zeros(k_, work, f.tile, {row, column + lane()}, f.lanes, {-left - 1});
    return work;
  }
  Stmt fill(const Factor& f, const IndexExpr& row0, const IndexExpr& term0) {
    return loop_over(f.walk.axes(), make(f, row0, term0));
  }

  // --- patches -----------------------------------------------------------------------------------------------------

  // What lies under the windows of the tile, to shared memory: warps over lines, lanes over positions. Lines of zeros
  // follow where the matrix instructions take more terms than there are.
  Stmt fill_windows() {
    const int64_t all = tiles_.lines(shape_), full = shape_.terms / shape_.patches->width;
    const int64_t count = shape_.positions(tiles_.rows), warps = std::min(all, threads() / kWarp);
    windows_ = add_tile(k_, "W", k_.regs[p_.left].dtype, all, round_up(count, kMaxLanes), count);
    const TileAxis warp{LoopTag::block, add_var(k_), warps}, thread{LoopTag::block, add_var(k_), kWarp},
        turn{LoopTag::unroll, add_var(k_), (all + warps - 1) / warps},
        step{LoopTag::unroll, add_var(k_), (count + kWarp - 1) / kWarp};
    const IndexExpr line = turn.at() * warps + warp.at(), position = step.at() * kWarp + thread.at();
    Block work = make_position(k_, p_.closure(p_.left), *shape_.patches, *p_.m,
                               {LoopTag::seq, p_.term.var, shape_.terms}, row0_, line, position);
    const RegId value = ir::defined(work.back())[0];
    ir::Guard inside;
    if (all % warps != 0) inside.push_back(IndexExpr(all - 1) - line);
    if (count % kWarp != 0) inside.push_back(IndexExpr(count - 1) - position);
    ir::Guard guard = inside;
    if (full < all) guard.push_back(IndexExpr(full - 1) - line);
    // Behind the windows of the last row there may be nothing.
    if (!divisible_by(k_, p_.m->extent, tiles_.rows))
      guard.push_back((p_.m->extent - 1 - row0_) * shape_.patches->step + shape_.patches->width - 1 - position);
    for (Stmt& stmt : work)
      if (auto* load = std::get_if<ir::Load>(&stmt.v)) guard_load(k_, *load, guard);
    const bool has_zeros = full < all && !keeps_zeros(work);
    if (has_zeros) {
      ir::Guard behind = inside;
      inside.push_back(IndexExpr(full - 1) - line), behind.push_back(line - full);
      add_zeros(k_, work, windows_, {line, position}, 1, std::move(behind));
    }
    work.push_back({ir::Store{windows_, {line, position}, value, inside, ir::StoreHint::none}});
    return loop_over({warp, thread, turn, step}, std::move(work));
  }

  // A block takes a few lines of windows, for which it loads the matrix once.
  struct Turns {
    LoopHead head;  // the loop over lines
    VarId block, turn;
    int64_t count = 1;
  };
  void find_turns() {
    if (!shape_.patches || nest_.heads.size() < 3 || tiles_.chunks(shape_.terms) > 1) return;
    const LoopHead& head = nest_.heads[nest_.heads.size() - 3];
    if (divisible_by(k_, head.extent, kLines)) turns_ = {head, add_var(k_), add_var(k_), kLines};
  }
  Block take_turns(Block work) {
    substitute(work, turns_->head.var,
               IndexExpr::symbol(turns_->block) * turns_->count + IndexExpr::symbol(turns_->turn));
    Block result;
    result.push_back(fill(b_, column0_, 0));
    result.push_back(rebuild_loops({{LoopTag::seq, turns_->turn, turns_->count}}, std::move(work)));
    return result;
  }

  // The element of a row and a term, from the windows.
  Block read_patches() {
    const IndexExpr term = IndexExpr::symbol(p_.term.var);
    Block work;
    work.push_back(
        {ir::Load{p_.left,
                  windows_,
                  {floordiv(term, shape_.patches->width),
                   (IndexExpr::symbol(p_.m->var) - row0_) * shape_.patches->step + mod(term, shape_.patches->width)},
                  {},
                  ir::Constant{k_.regs[p_.left].dtype},
                  0}});
    return work;
  }

  // --- the product -------------------------------------------------------------------------------------------------

  // The tile of results, in chunks of terms.
  Block sum(VarId step) {
    const int64_t chunks = tiles_.chunks(shape_.terms);
    const IndexExpr term0 = chunks > 1 ? IndexExpr::symbol(step) * tiles_.chunk : IndexExpr(0);
    Block part, result;
    // Patches are read from shared memory: what comes from further away is asked for first.
    if (!turns_) part.push_back(fill(b_, column0_, term0));
    if (!shape_.in_place()) part.push_back(fill(a_, row0_, term0));
    part.push_back(multiply(step));
    result.push_back(over_results(clear()));
    if (chunks == 1) return append(result, std::move(part)), result;
    result.push_back(rebuild_loops({{LoopTag::seq, step, chunks}}, std::move(part)));
    return result;
  }

  // Of the chunk whose number is `chunk`.
  Stmt multiply(VarId chunk) {
    Block step;
    const VarId at = add_var(k_);
    const RegId before = add_reg(k_, DType::f32, ir::kMmaResults), after = add_reg(k_, DType::f32, ir::kMmaResults);
    step.push_back({ir::Load{before, sums_, sums_at(lane()), {}, ir::Constant{DType::f32}, 0}});
    const IndexExpr term = IndexExpr::symbol(at) * ir::kMmaTerms;
    ir::Mma mma{after,
                before,
                a_.tile,
                b_.tile,
                {warp_row(), term},
                {warp_column(), term},
                IndexExpr::symbol(warps_.back().var)};
    if (shape_.in_place()) {
      const auto& [width, windows_step] = *shape_.patches;
      mma.a = windows_;
      mma.a_index = {IndexExpr::symbol(at) * (ir::kMmaTerms / width), warp_row() * windows_step};
      if (tiles_.chunks(shape_.terms) > 1) mma.a_index[0] += IndexExpr::symbol(chunk) * (tiles_.chunk / width);
      mma.windows = {width, windows_step};
    }
    step.push_back({std::move(mma)});
    step.push_back({ir::Store{sums_, sums_at(lane()), after, {}, ir::StoreHint::none}});
    std::vector<LoopHead> heads;
    for (const TileAxis& axis : used_axes(warps_)) heads.push_back({axis.tag, axis.var, axis.extent});
    const int64_t steps = tiles_.chunk / ir::kMmaTerms;
    if (steps > 1) heads.push_back({steps <= 8 ? LoopTag::unroll : LoopTag::seq, at, steps});
    if (steps == 1) substitute(step, at, 0);
    for (const TileAxis& axis : used_axes({rows_of_warp_, columns_of_warp_}))
      heads.push_back({axis.tag, axis.var, axis.extent});
    return rebuild_loops(heads, std::move(step));
  }

  IndexExpr warp_row() const {
    return warps_[0].at() * (tiles_.rows / tiles_.row_warps) + rows_of_warp_.at() * ir::kMmaRows;
  }
  IndexExpr warp_column() const {
    return warps_[1].at() * (tiles_.columns / tiles_.column_warps) + columns_of_warp_.at() * ir::kMmaColumns;
  }
  std::vector<IndexExpr> sums_at(const IndexExpr& result) const {
    std::vector<IndexExpr> index;
    for (const TileAxis& axis : used_axes(warps_)) index.push_back(axis.at());
    index.insert(index.end(), {rows_of_warp_.at(), columns_of_warp_.at(), result});
    return index;
  }
  Stmt over_results(Block body) const {
    std::vector<TileAxis> axes = warps_;
    axes.insert(axes.end(), {rows_of_warp_, columns_of_warp_});
    return loop_over(axes, clone(k_, body));
  }

  Block clear() {
    Block body;
    add_zeros(k_, body, sums_, sums_at(lane()), ir::kMmaResults, {});
    return body;
  }

  // --- from the results to memory ----------------------------------------------------------------------------------

  // Each warp hands on 16 of its rows at a time, so that few results are in shared memory at once.
  Stmt finish() {
    const TileAxis part = rows_of_warp_;
    Block body;
    std::vector<TileAxis> axes = warps_;
    axes.push_back(columns_of_warp_);
    body.push_back(loop_over(axes, clone(k_, keep())));
    body.push_back(compute(part.at()));
    if (part.extent == 1) {
      Block one;
      one.push_back(rebuild_loops({{LoopTag::seq, part.var, 1}}, std::move(body)));
      return std::move(one[0]);
    }
    return rebuild_loops({{LoopTag::unroll, part.var, part.extent}}, std::move(body));
  }

  // From the registers of the warps to the tile of results.
  Block keep() {
    const IndexExpr thread = IndexExpr::symbol(warps_.back().var);
    Block body;
    for (const int64_t half : {0, 1}) {
      const RegId pair = add_reg(k_, DType::f32, 2);
      body.push_back({ir::Load{pair, sums_, sums_at(half * 2 + lane()), {}, ir::Constant{DType::f32}, 0}});
      body.push_back({ir::Store{results_,
                                {warps_[0].at() * ir::kMmaRows + floordiv(thread, 4) + half * ir::kMmaRows / 2,
                                 warp_column() + mod(thread, 4) * 2 + lane()},
                                pair,
                                {},
                                ir::StoreHint::none}});
    }
    return body;
  }

  // The rest of the nest, for part `part` of each warp's rows.
  Stmt compute(const IndexExpr& part) {
    const TileWalk w = make_walk(k_, threads(), tiles_.kept_rows(), tiles_.columns / out_lanes_, out_lanes_, false);
    const IndexExpr kept = w.row(), column = w.column();
    const IndexExpr row =
        floordiv(kept, ir::kMmaRows) * (tiles_.rows / tiles_.row_warps) + part * ir::kMmaRows + mod(kept, ir::kMmaRows);
    Block work;
    const RegId sum = p_.sum->dst[0];
    for (const Stmt& stmt : nest_.body) {
      if (std::holds_alternative<ir::Reduce>(stmt.v)) {
        work.push_back(
            {ir::Load{sum, results_, {kept, IndexExpr::symbol(p_.n.var) - column0_}, {}, ir::Constant{DType::f32}, 0}});
      } else {
        work.push_back(stmt);
      }
    }
    work = clone(k_, work);
    ir::Guard guard;
    const IndexExpr rows = p_.m ? p_.m->extent : IndexExpr(1);
    if (!divisible_by(k_, rows, tiles_.rows)) guard.push_back(rows - 1 - row0_ - row);
    if (shape_.columns % tiles_.columns != 0)
      guard.push_back(IndexExpr(shape_.columns) - out_lanes_ - column0_ - column);
    for (Stmt& stmt : work) {
      if (auto* load = std::get_if<ir::Load>(&stmt.v); load != nullptr && load->buffer != results_) {
        if (load->guard.empty()) load->otherwise = {k_.buffers[load->buffer].dtype};
        load->guard.insert(load->guard.end(), guard.begin(), guard.end());
      }
      if (auto* store = std::get_if<ir::Store>(&stmt.v))
        store->guard.insert(store->guard.end(), guard.begin(), guard.end());
    }
    if (p_.m) substitute(work, p_.m->var, row0_ + row);
    vectorize(k_, work, p_.n.var, static_cast<int>(out_lanes_), column0_ + column);
    return loop_over(w.axes(), std::move(work));
  }

  const Scheduling& s_;
  ir::Kernel& k_;
  PerfectNest nest_;
  KnownExtents known_;
  ProductParts p_;
  ProductShape shape_;
  int64_t in_lanes_ = 1, left_lanes_ = 1, out_lanes_ = 1;
  std::optional<Turns> turns_;
  ProductTiles tiles_;
  IndexExpr row0_, column0_;  // where the tile begins
  Factor a_, b_;
  BufferId results_, sums_, windows_;
  std::vector<TileAxis> warps_;
  TileAxis rows_of_warp_{}, columns_of_warp_{};
};

}  // namespace

std::optional<Block> cuda_product(const Scheduling& s, const PerfectNest& nest) {
  ProductSchedule product(s, nest);
  if (!product.suits()) return std::nullopt;
  return product.run();
}

}  // namespace fusec::compiler

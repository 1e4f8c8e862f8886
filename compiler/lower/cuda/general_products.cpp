// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: schedules the matrix products that no library multiplies, with what surrounds them, whatever their
// extents and layouts are.
//
//   y[.., m, n] = f(sum over k of left[.., m, k] * right[.., n, k], ...)
//
// Loops on which the right factor does not depend are rows, all of them together: m. The others are a batch. A thread
// block computes a tile of rows and columns. In chunks of terms it loads tiles of both factors, which other ops may
// have to make first, to shared memory and multiplies these: 16-bit ones by matrix instructions, f32 ones by a fused
// multiplication and addition for each product. The results go through shared memory, so that f is computed along rows.
//
// A sum adds its products in their order, or in that of the matrix instructions, whatever the tile is. With few rows
// and many terms, the blocks of a cluster have a share of the terms each and compute a tile together: the sums of the
// shares are added in their order. docs/decisions/033-without-libraries.md, docs/decisions/039-shares-of-terms.md

#include <algorithm>

#include "compiler/lower/cuda/product_parts.h"
#include "compiler/lower/cuda/product_tiles.h"
#include "compiler/lower/cuda/tile_walk.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {
namespace {

constexpr int64_t kMinChunkTerms = 16, kMatrixChunk = 64;  // terms that are in shared memory at once
constexpr int64_t kScalarPad = 4;                          // f32 elements behind each row of a tile
constexpr int64_t kScalarLanes = 4;                        // terms that a thread reads at once
constexpr int64_t kAheadRegisters = 64;                    // of a thread: for sums, and for the next chunk
constexpr int64_t kMaxStages = 3, kCopyBytes = 74 << 10;   // of copies; bytes: of a block, three of which fit
constexpr int64_t kUnknownTerms = 512, kUnknownColumns = 128;

class GeneralProduct {
 public:
  GeneralProduct(const Scheduling& s, const PerfectNest& nest) : s_(s), k_(s.kernel), nest_(nest) {}

  bool suits() {
    put_extents(nest_, known_extents(s_));
    const bool has_mma = s_.target.sm >= ir::kFirstMmaSm;
    auto parts = find_product_parts(k_, nest_, has_mma ? ProductKind::general : ProductKind::wide);
    if (!parts) return false;
    p_ = *std::move(parts);
    dtype_ = k_.regs[p_.left].dtype;
    if (dtype_ != k_.regs[p_.right].dtype || (dtype_ != DType::f32 && !is_16_bit_float(dtype_))) return false;
    merge_rows();
    return choose_tile();
  }

  Block run() {
    put_extents(k_, known_extents(s_));
    const VarId i = add_var(k_), j = add_var(k_), step = add_var(k_);
    row0_ = IndexExpr::symbol(i) * rows_, column0_ = IndexExpr::symbol(j) * columns_;
    a_ = make_factor("A", p_.left, m_, rows_);
    b_ = make_factor("B", p_.right, p_.n, columns_);
    results_ =
        add_tile(k_, "C", DType::f32, splits() ? rows_ : kept_rows_, columns_ + kTilePad, columns_, {block_.extent});
    if (is_matrix()) {
      sums_ = add_registers("sums", {part_.extent, across_.extent, ir::kMmaResults});
    } else {
      sums_ = add_registers("sums", {part_.extent, across_.extent});
      row_terms_ = add_registers("row_terms", {part_.extent, kScalarLanes});
      column_terms_ = add_registers("column_terms", {kScalarLanes});
    }
    Block body;
    for (const BufferId id : {a_.tile, b_.tile, a_.ahead, b_.ahead, results_, sums_, row_terms_, column_terms_})
      if (id.valid()) body.push_back({ir::Alloc{id}});
    body.push_back(clear());
    const IndexExpr chunks = splits() ? IndexExpr(shares_.terms / chunk_) : ceildiv(p_.term.extent, chunk_);
    const IndexExpr first = block_.at() * shares_.terms, term0 = first + IndexExpr::symbol(step) * chunk_;
    append(body, begin_tiles(first, chunks));
    Block part = next_tiles(IndexExpr::symbol(step), term0, chunks);
    part.push_back(is_matrix() ? multiply_matrices(IndexExpr::symbol(step)) : multiply_scalars());
    body.push_back(rebuild_loops({{LoopTag::seq, step, chunks}}, std::move(part)));
    append(body, splits() ? finish_shares() : finish());
    std::vector<LoopHead> grid = batch_;
    for (LoopHead& head : grid) head.tag = LoopTag::grid;
    grid.push_back({LoopTag::grid, i, ceildiv(m_.extent, rows_)});
    grid.push_back({LoopTag::grid, j, ceildiv(p_.n.extent, columns_)});
    Block result;
    result.push_back(rebuild_loops(grid, std::move(body)));
    return result;
  }

 private:
  struct Factor;

  static IndexExpr lane() { return IndexExpr::symbol(ir::kLane); }
  bool is_matrix() const { return dtype_ != DType::f32; }
  bool splits() const { return block_.extent > 1; }

  // Makes one loop of all rows.
  void merge_rows() {
    std::vector<LoopHead> rows;
    for (const LoopHead& head : nest_.heads)
      if (head.var != p_.n.var) (p_.uses(p_.right, head.var) ? batch_ : rows).push_back(head);
    m_ = {LoopTag::seq, add_var(k_), 1};
    const Linear linear = linearize(rows, IndexExpr::symbol(m_.var));
    m_.extent = linear.total;
    for (const LoopHead& head : rows)
      for (Block* block : {&nest_.body, &p_.made}) substitute(*block, head.var, linear.values.at(head.var));
  }

  // --- tiles -------------------------------------------------------------------------------------------------------

  bool choose_tile() {
    const auto terms = known_value(s_, p_.term.extent);
    IndexExpr count = m_.extent;
    for (const LoopHead& head : batch_) count *= head.extent;
    shares_ = find_shares(s_, p_.term.extent, p_.n.extent);
    block_ = {LoopTag::cluster, add_var(k_), 1};
    if (!is_matrix()) {
      const ScalarTile t = choose_scalar_tile(s_, count, m_.extent, p_.n.extent, shares_.count);
      block_.extent = t.shares;
      chunk_ = t.chunk();
      while (terms && chunk_ > kMinChunkTerms && *terms <= chunk_ / 2) chunk_ /= 2;
      rows_ = t.rows(), columns_ = t.columns(), kept_rows_ = t.thread_rows;
      threads_ = {{LoopTag::block, add_var(k_), t.thread_rows}, {LoopTag::block, add_var(k_), t.thread_columns}};
      part_ = {LoopTag::unroll, add_var(k_), t.rows_of_thread};
      across_ = {LoopTag::unroll, add_var(k_), t.columns_of_thread};
      return true;
    }
    ProductShape shape;
    shape.terms = terms.value_or(kUnknownTerms);
    shape.columns = typical_value(s_, p_.n.extent).value_or(kUnknownColumns);
    const auto t = choose_product_tiles(s_, shape, count, m_, shares_.count);
    if (!t) return false;
    block_.extent = t->shares;
    rows_ = t->rows, columns_ = t->columns, kept_rows_ = t->kept_rows();
    chunk_ = std::min(kMatrixChunk, round_up(shape.terms, ir::kMmaTerms));
    threads_ = {{LoopTag::block, add_var(k_), t->row_warps},
                {LoopTag::block, add_var(k_), t->column_warps},
                {LoopTag::block, add_var(k_), kWarp}};
    part_ = {LoopTag::unroll, add_var(k_), rows_ / t->row_warps / ir::kMmaRows};
    across_ = {LoopTag::unroll, add_var(k_), columns_ / t->column_warps / ir::kMmaColumns};
    const int64_t of_share = splits() ? shares_.terms : shape.terms;
    if (s_.target.sm >= ir::kCopyAsyncSm && of_share > chunk_) stages_ = stages_of_copies();
    return true;
  }

  // As many as leave room for three blocks on a multiprocessor; 1: not even two do.
  int64_t stages_of_copies() const {
    const int64_t results = (splits() ? rows_ : kept_rows_) * (columns_ + kTilePad) * 4;
    const int64_t stage = (rows_ + columns_) * (chunk_ + kTilePad) * 2;
    const int64_t most = std::min<int64_t>(kCopyBytes, s_.target.shared_bytes_per_block);
    int64_t stages = kMaxStages;
    while (stages > 1 && stages * stage + results > most) --stages;
    return stages;
  }

  int64_t threads() const {
    int64_t all = 1;
    for (const TileAxis& axis : threads_) all *= axis.extent;
    return all;
  }

  // The axes with those of all threads in front: of the blocks of a cluster, and in a block.
  std::vector<TileAxis> in_blocks(std::vector<TileAxis> axes) const {
    axes.insert(axes.begin(), block_);
    return axes;
  }
  Stmt over_blocks(const std::vector<TileAxis>& axes, Block body) const {
    return loop_over(splits() ? in_blocks(axes) : axes, std::move(body));
  }
  // An element of the results in shared memory, or of a factor's tile for the chunk of a number.
  std::vector<IndexExpr> in_results(const IndexExpr& row, const IndexExpr& column) const {
    if (splits()) return {block_.at(), row, column};
    return {row, column};
  }
  std::vector<IndexExpr> in_tile(const Factor& f, const IndexExpr& chunk, const IndexExpr& row,
                                 const IndexExpr& column) const {
    std::vector<IndexExpr> index = in_results(row, column);
    if (f.copies) index.insert(index.end() - 2, mod(chunk, stages_));
    return index;
  }

  BufferId add_registers(const char* name, std::initializer_list<IndexExpr> of_thread) {
    ir::IndexShape shape;
    for (const TileAxis& axis : used_axes(in_blocks(threads_))) shape.push_back(axis.extent);
    shape.insert(shape.end(), of_thread);
    return add_buffer(k_, {name, ir::Space::reg, DType::f32, std::move(shape), {}, 0, ""});
  }

  // --- from memory to tiles ----------------------------------------------------------------------------------------

  // A factor of the product: `value` for a tile of rows of the loop `along`.
  struct Factor {
    BufferId tile;
    RegId value;
    LoopHead along;
    int64_t rows = 0;
    Block work;  // that makes the value
    TileWalk walk;
    BufferId ahead;       // registers for the next chunk, if it is loaded ahead
    bool copies = false;  // whether it is copied to a tile of several stages, without a detour through registers
  };

  // Whether each thread loads the next chunk while it multiplies: where few registers are needed for that. Then there
  // are few threads on a multiprocessor, too, that could work meanwhile.
  bool loads_ahead() const {
    const auto terms = known_value(s_, p_.term.extent);
    const int64_t bytes = (rows_ + columns_) * chunk_ * static_cast<int64_t>(size_of(dtype_));
    return (!terms || (splits() ? shares_.terms : *terms) > chunk_) &&
           rows_ * columns_ + bytes / 4 <= kAheadRegisters * threads();
  }

  Factor make_factor(const char* name, RegId value, const LoopHead& along, int64_t rows) {
    Factor f{{}, value, along, rows, p_.closure(value), {}, {}};
    const int64_t widest = kAccessBytes / static_cast<int64_t>(size_of(dtype_));
    int64_t lanes = widest;
    const auto reads = [&](RunKind kind) { return reads_runs(k_, p_, heads_of_factors(), f.work, lanes, kind); };
    while (lanes > 1 && !reads(RunKind::side_by_side)) lanes /= 2;
    const bool along_terms = lanes > 1 || reads(RunKind::side_by_side);
    if (!along_terms)
      for (lanes = widest; lanes > 1 && !reads(RunKind::even);) lanes /= 2;
    f.walk = make_walk(k_, threads(), rows, chunk_ / lanes, lanes, !along_terms);
    f.copies = stages_ > 1 && lanes == widest && reads(RunKind::copies);
    f.tile = add_tile(k_, name, dtype_, rows, chunk_ + (is_matrix() ? kTilePad : kScalarPad), chunk_,
                      {block_.extent, f.copies ? stages_ : 1});
    if (f.copies || !loads_ahead()) return f;
    ir::IndexShape shape;
    for (const TileAxis& axis : used_axes(in_blocks(f.walk.axes())))
      if (axis.tag >= LoopTag::block) shape.push_back(axis.extent);
    shape.insert(shape.end(), {f.walk.step.extent, f.walk.turn.extent, lanes});
    f.ahead = add_buffer(k_, {name + std::string("_ahead"), ir::Space::reg, dtype_, std::move(shape), {}, 0, ""});
    return f;
  }

  std::vector<LoopHead> heads_of_factors() const {
    std::vector<LoopHead> heads = nest_.heads;
    heads.push_back(m_);
    return heads;
  }

  // Whether there is something behind the last term in the last chunk.
  bool has_tail() const { return !divisible_by(k_, p_.term.extent, splits() ? shares_.terms : chunk_); }
  // At least 0 where the access of the walk lies in front of it.
  IndexExpr terms_left(const Factor& f, const IndexExpr& term0) const {
    return p_.term.extent - f.walk.lanes - term0 - f.walk.column();
  }

  // Whether the access of the walk lies inside of the factor.
  ir::Guard guard_of(const Factor& f, const IndexExpr& row0, const IndexExpr& term0) const {
    ir::Guard guard;
    if (!divisible_by(k_, f.along.extent, f.rows)) guard.push_back(f.along.extent - 1 - row0 - f.walk.row());
    if (has_tail()) guard.push_back(terms_left(f, term0));
    return guard;
  }
  // What makes the access of the walk in the tile that begins at a row and a term, with zeros where there is none, and
  // stores it. Behind the last term these may be turned into something else.
  Block make(const Factor& f, const IndexExpr& row0, const IndexExpr& term0, BufferId to,
             std::vector<IndexExpr> index) {
    const IndexExpr row = f.walk.row();
    Block work = f.work;
    const ir::Guard guard = guard_of(f, row0, term0);
    index.back() += IndexExpr::symbol(p_.term.var) - term0;
    work.push_back({ir::Store{to, std::move(index), f.value, {}, ir::StoreHint::none}});
    work = clone(k_, work);
    for (Stmt& stmt : work)
      if (auto* load = std::get_if<ir::Load>(&stmt.v)) guard_load(k_, *load, guard);
    substitute(work, f.along.var, row0 + row);
    vectorize(k_, work, p_.term.var, static_cast<int>(f.walk.lanes), term0 + f.walk.column());
    return work;
  }
  // Gives the tile zeros behind the last term, where what the last statement stores may be something else.
  void clear_tail(const Factor& f, const IndexExpr& term0, Block& work) {
    if (!has_tail() || keeps_zeros(f.work)) return;
    const IndexExpr left = terms_left(f, term0);
    std::get<ir::Store>(work.back().v).guard.push_back(left);
    add_zeros(k_, work, f.tile, in_results(f.walk.row(), f.walk.column() + lane()), f.walk.lanes, {-left - 1});
  }

  // What comes in front of the first chunk of `chunks`, which begins at a term, and what comes in front of each.
  Block begin_tiles(const IndexExpr& term0, const IndexExpr& chunks) {
    Block all;
    if (loads_ahead()) append(all, load_ahead(term0));
    for (int64_t chunk = 0; chunk + 1 < stages_ && (a_.copies || b_.copies); ++chunk) {
      all.push_back(only_if(k_, chunks - chunk, copy(chunk, term0 + chunk * chunk_)));
      all.push_back({ir::Sync{ir::SyncScope::copies, ir::kAllThreads, stages_ - 1}});
    }
    return all;
  }
  Block next_tiles(const IndexExpr& chunk, const IndexExpr& term0, const IndexExpr& chunks) {
    Block all;
    for (const Factor* f : {&b_, &a_})
      if (!f->copies) all.push_back(loads_ahead() ? hand_on(*f, term0) : fill(*f, f == &a_ ? row0_ : column0_, term0));
    if (loads_ahead() && !(a_.copies && b_.copies))
      all.push_back(only_if(k_, chunks - 1 - chunk, load_ahead(term0 + chunk_)));
    if (!a_.copies && !b_.copies) return all;
    const int64_t ahead = stages_ - 1;
    all.push_back(only_if(k_, chunks - ahead - chunk, copy(chunk + ahead, term0 + ahead * chunk_)));
    all.push_back({ir::Sync{ir::SyncScope::copies, ir::kAllThreads, ahead}});
    return all;
  }
  // Begins to copy the chunk of a number, which begins at a term.
  Block copy(const IndexExpr& chunk, const IndexExpr& term0) {
    Block all;
    for (const Factor* f : {&b_, &a_}) {
      if (!f->copies) continue;
      Block work = f->work;
      ir::Load& load = std::get<ir::Load>(work[0].v);
      guard_load(k_, load, guard_of(*f, f == &a_ ? row0_ : column0_, term0));
      substitute(work, f->along.var, (f == &a_ ? row0_ : column0_) + f->walk.row());
      substitute(work, p_.term.var, term0 + f->walk.column());
      ir::CopyAsync copy{f->tile,    load.buffer,     in_tile(*f, chunk, f->walk.row(), f->walk.column()),
                         load.index, {f->walk.lanes}, load.guard};
      work.clear();
      work.push_back({std::move(copy)});
      all.push_back(over_blocks(f->walk.axes(), std::move(work)));
    }
    return all;
  }

  Stmt fill(const Factor& f, const IndexExpr& row0, const IndexExpr& term0) {
    Block work = make(f, row0, term0, f.tile, in_results(f.walk.row(), 0));
    clear_tail(f, term0, work);
    return over_blocks(f.walk.axes(), std::move(work));
  }

  // In two steps: from memory to registers, and from there to the tile.
  Block load_ahead(const IndexExpr& term0) {
    Block all;
    for (const Factor* f : {&b_, &a_}) {
      if (f->copies) continue;
      std::vector<IndexExpr> index = ahead_at(*f);
      index.push_back(-f->walk.column());
      Block work = make(*f, f == &a_ ? row0_ : column0_, term0, f->ahead, std::move(index));
      all.push_back(over_blocks(f->walk.axes(), std::move(work)));
    }
    return all;
  }
  Stmt hand_on(const Factor& f, const IndexExpr& term0) {
    const RegId value = add_reg(k_, dtype_, static_cast<int>(f.walk.lanes));
    const IndexExpr place = f.walk.lanes > 1 ? lane() : IndexExpr(0);
    std::vector<IndexExpr> index = ahead_at(f);
    index.push_back(place);
    Block work;
    work.push_back({ir::Load{value, f.ahead, std::move(index), {}, ir::Constant{dtype_}, 0}});
    work.push_back(
        {ir::Store{f.tile, in_results(f.walk.row(), f.walk.column() + place), value, {}, ir::StoreHint::none}});
    clear_tail(f, term0, work);
    return over_blocks(f.walk.axes(), std::move(work));
  }
  std::vector<IndexExpr> ahead_at(const Factor& f) const {
    std::vector<IndexExpr> index;
    for (const TileAxis& axis : used_axes(in_blocks(f.walk.axes())))
      if (axis.tag >= LoopTag::block) index.push_back(axis.at());
    index.insert(index.end(), {f.walk.step.at(), f.walk.turn.at()});
    return index;
  }

  // --- the product -------------------------------------------------------------------------------------------------

  std::vector<IndexExpr> of_thread(std::initializer_list<IndexExpr> rest) const {
    std::vector<IndexExpr> index;
    for (const TileAxis& axis : used_axes(in_blocks(threads_))) index.push_back(axis.at());
    index.insert(index.end(), rest);
    return index;
  }
  std::vector<IndexExpr> sums_at() const {
    if (is_matrix()) return of_thread({part_.at(), across_.at(), lane()});
    return of_thread({part_.at(), across_.at()});
  }
  Stmt over_threads(const std::vector<TileAxis>& inner, Block body) const {
    std::vector<TileAxis> axes = threads_;
    axes.insert(axes.end(), inner.begin(), inner.end());
    return over_blocks(axes, std::move(body));
  }

  Stmt clear() {
    Block body;
    if (is_matrix()) {
      add_zeros(k_, body, sums_, sums_at(), ir::kMmaResults, {});
    } else {
      body.push_back({ir::Store{sums_, sums_at(), ir::float_constant(DType::f32, 0), {}, ir::StoreHint::none}});
    }
    return over_threads({part_, across_}, std::move(body));
  }

  Stmt multiply_matrices(const IndexExpr& chunk) {
    const TileAxis step{LoopTag::unroll, add_var(k_), chunk_ / ir::kMmaTerms};
    const RegId before = add_reg(k_, DType::f32, ir::kMmaResults), after = add_reg(k_, DType::f32, ir::kMmaResults);
    const IndexExpr term = step.at() * ir::kMmaTerms;
    Block body;
    body.push_back({ir::Load{before, sums_, sums_at(), {}, ir::Constant{DType::f32}, 0}});
    body.push_back({ir::Mma{after, before, a_.tile, b_.tile, in_tile(a_, chunk, warp_row(), term),
                            in_tile(b_, chunk, warp_column(), term), IndexExpr::symbol(threads_.back().var)}});
    body.push_back({ir::Store{sums_, sums_at(), after, {}, ir::StoreHint::none}});
    return over_threads({step, part_, across_}, std::move(body));
  }
  // Where the rows and columns of a warp's matrix instruction begin in the tile.
  IndexExpr warp_row() const { return threads_[0].at() * (part_.extent * ir::kMmaRows) + part_.at() * ir::kMmaRows; }
  IndexExpr warp_column() const {
    return threads_[1].at() * (across_.extent * ir::kMmaColumns) + across_.at() * ir::kMmaColumns;
  }

  // Four terms at a time: those of the thread's rows stay in registers, while those of its columns follow each other.
  Stmt multiply_scalars() {
    const TileAxis step{LoopTag::seq, add_var(k_), chunk_ / kScalarLanes},
        term{LoopTag::unroll, add_var(k_), kScalarLanes}, held{LoopTag::unroll, add_var(k_), part_.extent};
    const IndexExpr first = step.at() * kScalarLanes;
    const RegId row = add_reg(k_, DType::f32, kScalarLanes), column = add_reg(k_, DType::f32, kScalarLanes);
    const auto load = [&](RegId to, BufferId from, std::vector<IndexExpr> index) -> Stmt {
      return {ir::Load{to, from, std::move(index), {}, ir::Constant{DType::f32}, 0}};
    };
    const auto keep = [&](BufferId to, std::vector<IndexExpr> index, RegId value) -> Stmt {
      return {ir::Store{to, std::move(index), value, {}, ir::StoreHint::none}};
    };
    Block rows, columns, products, body;
    rows.push_back(load(row, a_.tile, in_results(held.at() * kept_rows_ + threads_[0].at(), first + lane())));
    rows.push_back(keep(row_terms_, of_thread({held.at(), lane()}), row));
    const RegId x = add_reg(k_, DType::f32), y = add_reg(k_, DType::f32), before = add_reg(k_, DType::f32),
                after = add_reg(k_, DType::f32);
    products.push_back(load(x, row_terms_, of_thread({part_.at(), term.at()})));
    products.push_back(load(y, column_terms_, of_thread({term.at()})));
    products.push_back(load(before, sums_, sums_at()));
    products.push_back({ir::Let{after, ir::ScalarOp::fma, {x, y, before}}});
    products.push_back(keep(sums_, sums_at(), after));
    columns.push_back(
        load(column, b_.tile, in_results(across_.at() * threads_[1].extent + threads_[1].at(), first + lane())));
    columns.push_back(keep(column_terms_, of_thread({lane()}), column));
    columns.push_back(loop_over({term, part_}, std::move(products)));
    body.push_back(loop_over({held}, std::move(rows)));
    body.push_back(loop_over({across_}, std::move(columns)));
    return over_threads({step}, std::move(body));
  }

  // --- from the results to memory ----------------------------------------------------------------------------------

  // Each thread hands on one of its rows at a time, or each warp 16, so that few results are in shared memory at once.
  Block finish() {
    Block body;
    body.push_back(over_threads({across_}, keep(threads_[0].at() * (is_matrix() ? ir::kMmaRows : 1))));
    body.push_back(compute(kept_rows_));
    const bool once = part_.extent == 1;
    Block result;
    result.push_back(
        rebuild_loops({{once ? LoopTag::seq : LoopTag::unroll, part_.var, part_.extent}}, std::move(body)));
    return result;
  }
  // Each block hands on all sums of its share, and adds those of all shares for its part of the rows.
  Block finish_shares() {
    const IndexExpr row = is_matrix() ? warp_row() : part_.at() * kept_rows_ + threads_[0].at();
    Block body;
    body.push_back(over_threads({part_, across_}, keep(row)));
    body.push_back(compute(rows_ / block_.extent));
    return body;
  }

  // The sums of the thread's part, or those of the warp's 16 rows, to `row` of the results and those behind it.
  Block keep(const IndexExpr& row) {
    Block body;
    if (!is_matrix()) {
      const RegId sum = add_reg(k_, DType::f32);
      body.push_back({ir::Load{sum, sums_, sums_at(), {}, ir::Constant{DType::f32}, 0}});
      body.push_back({ir::Store{results_,
                                in_results(row, across_.at() * threads_[1].extent + threads_[1].at()),
                                sum,
                                {},
                                ir::StoreHint::none}});
      return body;
    }
    const IndexExpr thread = IndexExpr::symbol(threads_.back().var);
    for (const int64_t half : {0, 1}) {
      const RegId pair = add_reg(k_, DType::f32, 2);
      body.push_back({ir::Load{
          pair, sums_, of_thread({part_.at(), across_.at(), half * 2 + lane()}), {}, ir::Constant{DType::f32}, 0}});
      body.push_back({ir::Store{
          results_,
          in_results(row + floordiv(thread, 4) + half * ir::kMmaRows / 2, warp_column() + mod(thread, 4) * 2 + lane()),
          pair,
          {},
          ir::StoreHint::none}});
    }
    return body;
  }

  // The row of the tile whose results are row `kept` of those in shared memory, or of the block's part of them.
  IndexExpr row_of(const IndexExpr& kept) const {
    if (splits()) return block_.at() * (rows_ / block_.extent) + kept;
    if (!is_matrix()) return part_.at() * kept_rows_ + kept;
    return floordiv(kept, ir::kMmaRows) * (part_.extent * ir::kMmaRows) + part_.at() * ir::kMmaRows +
           mod(kept, ir::kMmaRows);
  }

  // The elements of a row that an access of a thread takes, behind the product.
  int64_t lanes_of_results() const {
    int64_t widest = 2;
    for (const Stmt& stmt : nest_.body)
      if (const auto* store = std::get_if<ir::Store>(&stmt.v))
        widest = std::max(widest, static_cast<int64_t>(size_of(k_.buffers[store->buffer].dtype)));
    int64_t lanes = kAccessBytes / widest;
    while (lanes > 1 && !divisible_by(k_, p_.n.extent, lanes)) lanes /= 2;
    return lanes;
  }

  // Loads the sum of a row of those in shared memory, or adds those of all shares.
  Block load_sum(const IndexExpr& kept) {
    const IndexExpr column = IndexExpr::symbol(p_.n.var) - column0_;
    const auto load = [&](RegId to, std::vector<IndexExpr> index) -> Stmt {
      return {ir::Load{to, results_, std::move(index), {}, ir::Constant{DType::f32}, 0}};
    };
    Block body;
    if (!splits()) return body.push_back(load(p_.sum->dst[0], {kept, column})), body;
    std::vector<RegId> of_shares;
    for (int64_t share = 0; share < block_.extent; ++share) {
      of_shares.push_back(add_reg(k_, DType::f32));
      body.push_back(load(of_shares.back(), {share, row_of(kept), column}));
    }
    RegId sum = of_shares[0];
    for (int64_t share = 1; share < block_.extent; ++share) {
      const RegId both = share + 1 == block_.extent ? p_.sum->dst[0] : add_reg(k_, DType::f32);
      body.push_back({ir::Let{both, ir::ScalarOp::add, {sum, of_shares[static_cast<size_t>(share)]}}});
      sum = both;
    }
    return body;
  }

  // The rest of the nest, for `count` rows of the results.
  Stmt compute(int64_t count) {
    const int64_t lanes = lanes_of_results();
    const TileWalk walk = make_walk(k_, threads(), count, columns_ / lanes, lanes, false);
    const IndexExpr row = row_of(walk.row()), column = walk.column();
    Block work;
    for (const Stmt& stmt : nest_.body) {
      if (std::holds_alternative<ir::Reduce>(stmt.v)) {
        append(work, load_sum(walk.row()));
      } else {
        work.push_back(stmt);
      }
    }
    work = clone(k_, work);
    ir::Guard guard;
    if (!divisible_by(k_, m_.extent, rows_)) guard.push_back(m_.extent - 1 - row0_ - row);
    if (!divisible_by(k_, p_.n.extent, columns_)) guard.push_back(p_.n.extent - lanes - column0_ - column);
    for (Stmt& stmt : work) {
      if (auto* load = std::get_if<ir::Load>(&stmt.v); load != nullptr && load->buffer != results_)
        guard_load(k_, *load, guard);
      if (auto* store = std::get_if<ir::Store>(&stmt.v))
        store->guard.insert(store->guard.end(), guard.begin(), guard.end());
    }
    substitute(work, m_.var, row0_ + row);
    vectorize(k_, work, p_.n.var, static_cast<int>(lanes), column0_ + column);
    return over_blocks(walk.axes(), std::move(work));
  }

  const Scheduling& s_;
  ir::Kernel& k_;
  PerfectNest nest_;
  ProductParts p_;
  DType dtype_ = DType::f32;     // of the factors
  std::vector<LoopHead> batch_;  // loops over products
  LoopHead m_;                   // the loop over rows
  int64_t rows_ = 0, columns_ = 0, chunk_ = 0, kept_rows_ = 0;
  int64_t stages_ = 1;  // of a factor's tile, if it is copied
  TermShares shares_;
  TileAxis block_{};               // that has a share
  std::vector<TileAxis> threads_;  // of rows and columns; of warps of rows and columns, and in a warp
  TileAxis part_{}, across_{};     // the rows and columns of a thread; those of a warp's matrix instructions
  IndexExpr row0_, column0_;       // where the tile begins
  Factor a_, b_;
  BufferId results_, sums_;
  BufferId row_terms_, column_terms_;  // of scalar arithmetic: those in registers
};

}  // namespace

std::optional<Block> cuda_general_product(const Scheduling& s, const PerfectNest& nest) {
  GeneralProduct product(s, nest);
  if (!product.suits()) return std::nullopt;
  return product.run();
}

}  // namespace fusec::compiler

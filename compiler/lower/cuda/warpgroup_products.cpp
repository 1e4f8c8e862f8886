// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: schedules large products of 16-bit matrices, with what follows them, for the warpgroup instructions
// of sm_90.
//
//   y[m, n] = f(sum over k of f32(a[m, k]) * f32(b[n, k]), ...)
//
// Both factors lie in memory with their terms side by side. A thread block computes a tile by one tile_product. Each
// thread then computes f for the pairs of results in its registers and stores them to a tile in shared memory, 64
// columns at a time, from which each warp takes its own rows to memory, 8 elements at a time.
// docs/decisions/036-warpgroup-products.md

#include <algorithm>
#include <cmath>

#include "compiler/lower/cuda/product_parts.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"
#include "ir/kernel/tile_memory.h"

namespace fusec::compiler {
namespace {

constexpr int64_t kMaxRowsOfTile = ir::kLargeTileRows, kMaxColumnsOfTile = ir::kLargeTileColumns;
constexpr int64_t kMaxColumnsBesideOperands = 128;  // where f reads other matrices, for which it needs registers
constexpr int64_t kPart = 64;                       // columns whose results are in shared memory at once
constexpr int64_t kPad = 8;                         // elements behind its rows, so that they begin in different banks
constexpr int64_t kPair = 2, kPieces = 8;  // elements of a thread side by side: of sums, and of an access to memory
constexpr int64_t kWarpRows = 16;          // of a warp in each step of 64 rows
constexpr int64_t kRowsOfSums = 8;         // of which the threads of a warp have sums side by side
constexpr double kMinIntensity = 100;      // n k / (n + k): below, matrix instructions of warps are as fast
constexpr int64_t kMaxPitch = 1 << 24;     // elements: 32 bits hold the bytes of 16 rows
constexpr int64_t kTypicalRows = 12544, kTypicalFewRows = 256;  // of a product with many rows, and with few
constexpr double kFollowing = 30;                               // cycles of what is made of one sum; estimated

// The element of a row r and a term k is buffer[first + pitch * r + k].
struct Factor {
  BufferId buffer;
  IndexExpr first;
  int64_t pitch = 0;
};

// nullopt: rows do not follow each other at a constant distance, or 16 bytes of a row are not aligned.
std::optional<Factor> find_factor(const Scheduling& s, const ProductParts& parts, RegId reg, VarId row) {
  if (!parts.reads_rows(s.kernel, reg)) return std::nullopt;
  const Block block = parts.closure(reg);
  const auto& load = std::get<ir::Load>(block[0].v);
  const auto affine = affine_in(load.index[0], {parts.term.var, row});
  if (!affine) return std::nullopt;
  const auto pitch = known_value(s, affine->coefficient(row));
  const bool aligned = s.kernel.buffers[load.buffer].alignment >= kAccessBytes &&
                       divisible_by(s.kernel, affine->rest, ir::kTileLanes) && pitch && *pitch % ir::kTileLanes == 0;
  if (!aligned || *pitch >= kMaxPitch || *pitch <= 0) return std::nullopt;
  return Factor{load.buffer, affine->rest, *pitch};
}

// The only store of the nest, if it takes results to rows of 16-bit elements.
const ir::Store* find_result(const Scheduling& s, const ProductParts& parts, const Block& body) {
  const ir::Store* result = nullptr;
  for (const Stmt& stmt : body) {
    const auto* store = std::get_if<ir::Store>(&stmt.v);
    if (store != nullptr && result != nullptr) return nullptr;
    if (store != nullptr) result = store;
  }
  if (result == nullptr || result->index.size() != 1 || !result->guard.empty()) return nullptr;
  const ir::Buffer& buffer = s.kernel.buffers[result->buffer];
  const auto affine = affine_in(result->index[0], {parts.n.var, parts.m->var});
  const bool lies_in_rows = affine && affine->coefficient(parts.n.var).is(1) &&
                            divisible_by(s.kernel, affine->rest, kPieces) &&
                            divisible_by(s.kernel, affine->coefficient(parts.m->var), kPieces);
  return buffer.space == ir::Space::out && is_16_bit_float(buffer.dtype) && buffer.alignment >= kAccessBytes &&
                 lies_in_rows
             ? result
             : nullptr;
}

struct TileSize {
  int64_t rows = kMaxRowsOfTile, columns = kMaxColumnsOfTile;
  int64_t count(int64_t all_rows, int64_t all_columns) const {
    return (all_rows + rows - 1) / rows * ((all_columns + columns - 1) / columns);
  }
  int64_t result_bytes() const { return rows * (kPart + kPad) * 2; }  // in shared memory at once
};

// Cycles in which a multiprocessor takes one chunk of terms. Its tensor cores compute 64 x N x 16 in N / 2; its shared
// memory passes 128 bytes, each step of 64 rows reads both factors, and 64 bytes come from the cache. From data sheets.
double chunk_cycles(const TileSize& t) {
  const auto rows = static_cast<double>(t.rows), columns = static_cast<double>(t.columns), both = rows + columns;
  return std::max({4 * rows / 64 * columns / 2, rows / 64 * (64 + columns) + both, 2 * both});
}

// Cycles of the product: tiles in turn, and what follows the last one.
double cycles(const Target& target, const TileSize& t, int64_t rows, int64_t columns, int64_t terms) {
  const int64_t sms = std::max(1, target.sm_count), turns = (t.count(rows, columns) + sms - 1) / sms;
  return static_cast<double>(turns) * static_cast<double>((terms + ir::kTileStageTerms - 1) / ir::kTileStageTerms) *
             chunk_cycles(t) +
         static_cast<double>(t.rows * t.columns / ir::kTileThreads) * kFollowing;
}

bool is_tile(const Target& target, const TileSize& t) {
  return t.rows > 0 && t.rows <= kMaxRowsOfTile && t.rows % ir::kTileRows == 0 && t.columns > 0 &&
         t.columns <= kMaxColumnsOfTile && t.columns % kPart == 0 &&
         ir::plan_tile_memory(t.rows, t.columns, t.result_bytes(), target.shared_bytes_per_block).fits();
}

// `most`: columns of a tile.
TileSize choose_tile(const Scheduling& s, const IndexExpr& rows, int64_t columns, int64_t terms, int64_t most) {
  const int64_t least = ir::rows_that_fill(s.target.sm_count, columns);
  const bool many = has_many(s, rows, least, true);
  const int64_t typical = typical_value(s, rows).value_or(many ? kTypicalRows : kTypicalFewRows);
  const int64_t count = many ? std::max(typical, least) : std::min(typical, least);
  TileSize best{kMaxRowsOfTile, most};
  for (int64_t height = kMaxRowsOfTile; height > 0; height -= ir::kTileRows)
    for (int64_t width = most; width > 0; width -= kPart) {
      const TileSize t{height, width};
      const bool less = cycles(s.target, t, count, columns, terms) < cycles(s.target, best, count, columns, terms);
      if (less && is_tile(s.target, t)) best = t;
    }
  const TileSize asked{decide(s, &ScheduleChoice::tile_rows, static_cast<int>(best.rows)),
                       decide(s, &ScheduleChoice::tile_columns, static_cast<int>(best.columns))};
  return is_tile(s.target, asked) && asked.columns <= most ? asked : best;
}

// The threads of a block: warps, and in each `rows` groups of threads along a row.
struct Threads {
  VarId warp, row, along;
  int64_t rows = 1;
  std::vector<LoopHead> heads() const {
    return {{LoopTag::block, warp, ir::kTileThreads / kWarp},
            {LoopTag::block, row, rows},
            {LoopTag::block, along, kWarp / rows}};
  }
  std::vector<IndexExpr> index() const {
    return {IndexExpr::symbol(warp), IndexExpr::symbol(row), IndexExpr::symbol(along)};
  }
};

class WarpgroupProduct {
 public:
  WarpgroupProduct(const Scheduling& s, const PerfectNest& nest) : k_(s.kernel), nest_(nest), known_(known_extents(s)) {
    if (!s.target.has_tile_products || nest_.heads.size() != 2) return;
    // Rows then lie at constant distances, and need no registers for addresses.
    put_extents(nest_, known_);
    find(s);
  }

  bool suits() const { return terms_ > 0; }

  Block run() {
    put_extents(k_, known_);
    const VarId i = add_var(k_), j = add_var(k_), part = add_var(k_);
    const Threads threads = make_threads(kRowsOfSums);
    row0_ = IndexExpr::symbol(i) * tile_.rows, column0_ = IndexExpr::symbol(j) * tile_.columns;
    sums_ = add_buffer(k_, {"sums",
                            ir::Space::reg,
                            DType::f32,
                            {ir::kTileThreads / kWarp, kRowsOfSums, kWarp / kRowsOfSums, tile_.rows / ir::kTileRows,
                             tile_.columns / ir::kTileColumns, 4},
                            {},
                            0,
                            ""});
    results_ = add_buffer(k_, {"results",
                               ir::Space::shared,
                               k_.buffers[result_->buffer].dtype,
                               {tile_.rows, kPart},
                               {},
                               0,
                               "pitch " + std::to_string(kPart + kPad)});
    Block product, parts, body;
    product.push_back({ir::TileProduct{sums_,
                                       a_.buffer,
                                       b_.buffer,
                                       threads.index(),
                                       {a_.first + row0_ * a_.pitch},
                                       {b_.first + column0_ * b_.pitch},
                                       a_.pitch,
                                       b_.pitch,
                                       p_.m->extent - row0_,
                                       all_columns_ - column0_,
                                       terms_,
                                       IndexExpr::symbol(threads.warp) * kWarp +
                                           IndexExpr::symbol(threads.row) * (kWarp / kRowsOfSums) +
                                           IndexExpr::symbol(threads.along)}});
    parts.push_back(compute(IndexExpr::symbol(part) * kPart));
    append(parts, store(IndexExpr::symbol(part) * kPart, IndexExpr::symbol(i)));
    body.push_back({ir::Alloc{sums_}});
    body.push_back({ir::Alloc{results_}});
    body.push_back(rebuild_loops(threads.heads(), std::move(product)));
    body.push_back(rebuild_loops({{LoopTag::unroll, part, tile_.columns / kPart}}, std::move(parts)));
    Block grid;
    grid.push_back(rebuild_loops({{LoopTag::grid, i, ceildiv(p_.m->extent, tile_.rows)},
                                  {LoopTag::grid, j, (all_columns_ + tile_.columns - 1) / tile_.columns}},
                                 std::move(body)));
    return grid;
  }

 private:
  void find(const Scheduling& s) {
    const auto parts = find_product_parts(k_, nest_);
    if (!parts || !parts->m) return;
    p_ = *parts;
    const auto terms = known_value(s, p_.term.extent), columns = known_value(s, p_.n.extent);
    if (!terms || !columns || *terms % ir::kTileLanes != 0 || *columns % kPieces != 0) return;
    const auto n = static_cast<double>(*columns), k = static_cast<double>(*terms);
    if (n * k <= kMinIntensity * (n + k)) return;
    const auto a = find_factor(s, p_, p_.left, p_.m->var), b = find_factor(s, p_, p_.right, p_.n.var);
    result_ = find_result(s, p_, nest_.body);
    if (!a || !b || result_ == nullptr) return;
    a_ = *a, b_ = *b, terms_ = *terms, all_columns_ = *columns;
    tile_ = choose_tile(s, p_.m->extent, all_columns_, terms_,
                        reads_matrices() ? kMaxColumnsBesideOperands : kMaxColumnsOfTile);
  }
  // Whether f reads something for each of the results.
  bool reads_matrices() const {
    return std::any_of(nest_.body.begin(), nest_.body.end(), [&](const Stmt& stmt) {
      return std::holds_alternative<ir::Load>(stmt.v) && mentions(stmt, p_.m->var) && mentions(stmt, p_.n.var);
    });
  }

  Threads make_threads(int64_t rows) { return {add_var(k_), add_var(k_), add_var(k_), rows}; }
  // A row of the tile: of the 16 rows that each warp has in every 64, those of one turn.
  static IndexExpr row_of(const Threads& threads, VarId step, VarId turn) {
    return IndexExpr::symbol(step) * ir::kTileRows + IndexExpr::symbol(threads.warp) * kWarpRows +
           IndexExpr::symbol(turn) * threads.rows + IndexExpr::symbol(threads.row);
  }
  void guard_rows(ir::Guard& guard, const IndexExpr& row) const {
    if (!divisible_by(k_, p_.m->extent, tile_.rows)) guard.push_back(p_.m->extent - 1 - row0_ - row);
  }
  // `column`: where 8 columns of the tile begin, all of which exist or none.
  void guard_columns(ir::Guard& guard, const IndexExpr& column) const {
    if (all_columns_ % tile_.columns != 0) guard.push_back(IndexExpr(all_columns_ - kPieces) - column0_ - column);
  }

  // From the sums of the columns from `first` on to the tile of results. A thread has pairs of neighbours: those of the
  // same columns follow each other, so that what depends on the column alone is loaded once.
  Stmt compute(const IndexExpr& first) {
    const Threads threads = make_threads(kRowsOfSums);
    const VarId group = add_var(k_), step = add_var(k_), half = add_var(k_);
    const IndexExpr row = row_of(threads, step, half);
    const IndexExpr group0 = first + IndexExpr::symbol(group) * ir::kTileColumns;
    const IndexExpr column = group0 + IndexExpr::symbol(threads.along) * kPair, n = IndexExpr::symbol(p_.n.var);
    std::vector<IndexExpr> sum = threads.index();
    sum.insert(sum.end(), {IndexExpr::symbol(step), *group0.exact_div(ir::kTileColumns),
                           IndexExpr::symbol(half) * kPair + n - column0_ - column});
    Block work;
    for (const Stmt& stmt : nest_.body) {
      if (std::holds_alternative<ir::Reduce>(stmt.v)) {
        work.push_back({ir::Load{p_.sum->dst[0], sums_, sum, {}, ir::Constant{DType::f32}, 0}});
      } else if (const auto* store = std::get_if<ir::Store>(&stmt.v)) {
        work.push_back({ir::Store{results_, {row, n - column0_ - first}, store->value, {}, ir::StoreHint::none}});
      } else {
        work.push_back(stmt);
      }
    }
    work = clone(k_, work);
    for (Stmt& stmt : work) {
      auto* load = std::get_if<ir::Load>(&stmt.v);
      if (load == nullptr || load->buffer == sums_) continue;
      if (load->guard.empty()) load->otherwise = {k_.buffers[load->buffer].dtype};
      if (mentions(stmt, p_.m->var)) guard_rows(load->guard, row);
      if (mentions(stmt, p_.n.var)) guard_columns(load->guard, group0);
    }
    substitute(work, p_.m->var, row0_ + row);
    vectorize(k_, work, p_.n.var, kPair, column0_ + column);
    std::vector<LoopHead> heads = threads.heads();
    heads.push_back({LoopTag::unroll, group, kPart / ir::kTileColumns});
    heads.push_back({LoopTag::unroll, step, tile_.rows / ir::kTileRows});
    heads.push_back({LoopTag::unroll, half, kWarpRows / kRowsOfSums});
    return rebuild_loops(heads, std::move(work));
  }

  // From the tile of results to memory. A tile that lies wholly inside of the rows needs no guards, for which there are
  // hardly registers. `i`: the number of the tile among the rows.
  Block store(const IndexExpr& first, const IndexExpr& i) {
    Block whole, partial;
    whole.push_back(store_rows(first, false));
    if (divisible_by(k_, p_.m->extent, tile_.rows)) return whole;
    partial.push_back(store_rows(first, true));
    return whole_or_partial(k_, {whole_tiles_left(p_.m->extent, tile_.rows, i)}, std::move(whole), std::move(partial));
  }
  Stmt store_rows(const IndexExpr& first, bool guarded) {
    const Threads threads = make_threads(kWarp / (kPart / kPieces));
    const VarId step = add_var(k_), turn = add_var(k_);
    const IndexExpr row = row_of(threads, step, turn);
    const IndexExpr column = IndexExpr::symbol(threads.along) * kPieces, n = IndexExpr::symbol(p_.n.var);
    const DType dtype = k_.buffers[results_].dtype;
    const RegId value = add_reg(k_, dtype);
    ir::Guard guard;
    if (guarded) guard_rows(guard, row);
    guard_columns(guard, first + column);
    Block work;
    work.push_back({ir::Load{value, results_, {row, n - column0_ - first}, {}, ir::Constant{dtype}, 0}});
    work.push_back({ir::Store{result_->buffer, result_->index, value, std::move(guard), result_->hint}});
    substitute(work, p_.m->var, row0_ + row);
    vectorize(k_, work, p_.n.var, kPieces, column0_ + first + column);
    std::vector<LoopHead> heads = threads.heads();
    heads.push_back({LoopTag::unroll, step, tile_.rows / ir::kTileRows});
    heads.push_back({guarded ? LoopTag::seq : LoopTag::unroll, turn, kWarpRows / threads.rows});
    return rebuild_loops(heads, std::move(work));
  }

  ir::Kernel& k_;
  PerfectNest nest_;
  KnownExtents known_;
  ProductParts p_;
  Factor a_, b_;
  const ir::Store* result_ = nullptr;
  int64_t terms_ = 0, all_columns_ = 0;  // 0: the nest is none of this family
  TileSize tile_;
  IndexExpr row0_, column0_;  // where the tile begins
  BufferId sums_, results_;
};

}  // namespace

std::optional<Block> cuda_warpgroup_product(const Scheduling& s, const PerfectNest& nest) {
  WarpgroupProduct product(s, nest);
  if (!product.suits()) return std::nullopt;
  return product.run();
}

}  // namespace fusec::compiler

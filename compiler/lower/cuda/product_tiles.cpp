// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: chooses the tiles of matrix products.

#include "compiler/lower/cuda/product_tiles.h"

#include <algorithm>

#include "compiler/lower/cuda/row_shape.h"
#include "compiler/lower/rewrite/kernel_names.h"

namespace fusec::compiler {
namespace {

constexpr int64_t kManyRows = 64;                    // of a tile, where there are tiles for half of the multiprocessors
constexpr int64_t kTypicalRows = 12544;              // of a product with many rows: 64 images of 14 x 14 places
constexpr int64_t kMaxColumns = 144;                 // of a tile
constexpr int64_t kWarpRows = 32, kWarpColumns = 4;  // of a warp: rows, groups of 8 columns
constexpr int64_t kMaxWarps = 8;                     // of a block
constexpr int64_t kBytes = 72 << 10;                 // of a block: three of them fit on a multiprocessor
constexpr int64_t kFewBytes = 160 << 10;             // of a block, where blocks are few
// Measured on an H100 (13 products of 3,136 to 802,816 rows): sums of up to so many terms are taken at once, longer
// ones in chunks; tiles of more columns and rows are faster in about these proportions, as long as there are some for
// each multiprocessor. Loads ahead of the products, and blocks that compute several tiles, were no faster.
constexpr int64_t kWholeTerms = 256, kChunk = 64;
constexpr double kTileColumns = 24, kTileRows = 8, kBlocks = 1.5;

int64_t shared_bytes(const ProductShape& shape, const ProductTiles& t) {
  const int64_t factors = ((shape.in_place() ? 0 : t.rows) + t.columns) * (t.chunk + kTilePad) * 2;
  const int64_t results = t.kept_rows() * (t.columns + kTilePad) * 4;
  return factors + results + (shape.patches ? t.lines(shape) * round_up(shape.positions(t.rows), 8) * 2 : 0);
}

// The tiles of so many rows and columns; nullopt: there are none. `few`: blocks are few, so each takes what it can.
std::optional<ProductTiles> make_tiles(const Target& target, const ProductShape& shape, int64_t rows, int64_t columns,
                                       bool few) {
  ProductTiles t{rows, columns, round_up(shape.terms, ir::kMmaTerms), std::max<int64_t>(1, rows / kWarpRows), 0};
  const int64_t groups = columns / ir::kMmaColumns;
  for (int64_t warps = 1; warps <= kMaxWarps / t.row_warps && t.column_warps == 0; ++warps)
    if (groups % warps == 0 && groups / warps <= kWarpColumns) t.column_warps = warps;
  if (t.column_warps == 0) return std::nullopt;
  // Four warps hide more of what each waits for.
  while (t.row_warps * t.column_warps < 4 && rows / t.row_warps > ir::kMmaRows) t.row_warps *= 2;
  while (t.row_warps * t.column_warps < 4 && groups % (t.column_warps * 2) == 0) t.column_warps *= 2;
  if (!few && t.chunk > kWholeTerms) t.chunk = kChunk;
  const int64_t most = std::min<int64_t>(few ? kFewBytes : kBytes, target.shared_bytes_per_block);
  if (shared_bytes(shape, t) > most) t.chunk = std::min(t.chunk, kChunk);
  if (shared_bytes(shape, t) > most || t.row_warps * t.column_warps < 2) return std::nullopt;
  return t;
}

// Tiles of scalar arithmetic, with as few loads from shared memory for each result as registers allow, for many columns
// and few, many rows and few.
constexpr ScalarTile kScalarTiles[] = {{16, 16, 8, 8}, {16, 16, 8, 4}, {8, 16, 8, 4}, {16, 8, 8, 4}, {32, 4, 8, 4},
                                       {8, 16, 4, 4},  {8, 8, 4, 4},   {8, 16, 2, 2}, {16, 8, 2, 2}};
constexpr int64_t kUnknownColumns = 128;
constexpr int64_t kFewRowsShare =
    16;  // of the rows that fill a GPU: what few are taken to be; chosen between 1 and all
// Cycles for each term, all estimated: a multiprocessor computes so many products in one, rows or columns of a tile
// take as long to load as so many to multiply, and a chunk of terms takes so long to come from the cache.
constexpr double kScalarRate = 128, kScalarTileEdge = 16, kChunkCycles = 800;

// Terms of products of few rows are divided into up to so many shares of at least so many terms. Shares begin at whole
// chunks of any tile.
constexpr int64_t kMaxShares = 8, kShareTerms = 192, kShareUnit = 64;
// Tiles of so many columns, of which there are enough for any GPU where shares and columns make so many.
constexpr int64_t kShareColumns = 64, kEnoughTiles = 256;
// Cycles for a term of a tile of 16-bit factors, estimated: a multiprocessor loads so many elements in one, or computes
// so many products, and a chunk of terms takes so long to come.
constexpr double kFactorRate = 16, kMatrixRate = 1024, kOfWork = 1e-3;

// As many rows of 16-bit products give about half of the multiprocessors a tile; below, there are few.
int64_t least_of_many(const Target& target, int64_t columns) {
  return kManyRows * std::max<int64_t>(1, target.sm_count / 2 / ((columns + 127) / 128));
}

int64_t terms_of_share(int64_t terms, int64_t shares) { return round_up((terms + shares - 1) / shares, kShareUnit); }

// How long the shares of a product's terms take, in cycles for each term of one.
double cost_of_shares(const Target& target, const ProductTiles& t, int64_t blocks) {
  const auto height = static_cast<double>(t.rows), width = static_cast<double>(t.columns);
  const double term = (height + width) / kFactorRate + height * width / kMatrixRate;
  const double rounds = std::max(1.0, static_cast<double>(blocks) / target.sm_count);
  // Where all wait for their chunks, the one with the least work.
  return std::max(rounds * term, kChunkCycles / kChunk) + kOfWork * rounds * term;
}

// How much longer the product takes than if it had no more columns than results, in large tiles, for every
// multiprocessor. `outer`: products of so many rows.
double cost(const Target& target, const ProductShape& shape, const ProductTiles& t, int64_t rows, int64_t outer) {
  const int64_t across = (shape.columns + t.columns - 1) / t.columns;
  const double blocks = static_cast<double>(outer * ((rows + t.rows - 1) / t.rows) * across);
  const double waste = static_cast<double>(across * t.columns) / static_cast<double>(shape.columns);
  return waste * (1 + kTileColumns / static_cast<double>(t.columns)) * (1 + kTileRows / static_cast<double>(t.rows)) *
         std::max(1.0, kBlocks * target.sm_count / blocks);
}

}  // namespace

TermShares find_shares(const Scheduling& s, const IndexExpr& terms, const IndexExpr& columns) {
  const auto k = known_value(s, terms), n = known_value(s, columns);
  if (!k || !n || !s.splits_sums || s.target.sm < kClusterSm) return {};
  const int64_t across = (*n + kShareColumns - 1) / kShareColumns;
  const auto suits = [&](int64_t count) {
    return *k >= count * kShareTerms && (count - 1) * terms_of_share(*k, count) < *k && across * count <= kEnoughTiles;
  };
  int64_t count = kMaxShares;
  while (count > 1 && !suits(count)) count /= 2;
  return {count, terms_of_share(*k, count)};
}

bool divides_terms(const Scheduling& s, const ProductShape& shape, const IndexExpr& count) {
  return find_shares(s, shape.terms, shape.columns).count > 1 &&
         !has_many(s, count, least_of_many(s.target, shape.columns), true);
}

ScalarTile choose_scalar_tile(const Scheduling& s, const IndexExpr& count, const IndexExpr& row_count,
                              const IndexExpr& columns, int64_t shares) {
  const ScalarTile& largest = kScalarTiles[0];
  const int64_t across = std::max<int64_t>(1, typical_value(s, columns).value_or(kUnknownColumns));
  const int64_t least = largest.rows() * std::max<int64_t>(1, s.target.sm_count * largest.columns() / across);
  const bool many = has_many(s, count, least, true);
  if (many) shares = 1;
  // Where the rows are not known, a symbol of 1 may stand for a sequence.
  const int64_t all = known_value(s, count).value_or(
      std::max(typical_value(s, count).value_or(0), many ? 4 * least : least / kFewRowsShare));
  const int64_t of_product =
      row_count == count
          ? all
          : known_value(s, row_count).value_or(std::max(typical_value(s, row_count).value_or(0), kManyRows));
  const int64_t rows = std::max<int64_t>(1, of_product), products = std::max<int64_t>(1, all / rows);
  const auto cost = [&](const ScalarTile& t) {
    const auto height = static_cast<double>(t.rows()), width = static_cast<double>(t.columns());
    const int64_t blocks =
        shares * products * ((rows + t.rows() - 1) / t.rows()) * ((across + t.columns() - 1) / t.columns());
    const double term = height * width * (1 + kScalarTileEdge / height + kScalarTileEdge / width) / kScalarRate;
    return std::max(static_cast<double>(std::max<int64_t>(blocks, s.target.sm_count)) / s.target.sm_count * term,
                    kChunkCycles / static_cast<double>(t.chunk()));
  };
  const ScalarTile* best = &kScalarTiles[0];
  for (const ScalarTile& t : kScalarTiles)
    if (cost(t) < cost(*best)) best = &t;
  const int64_t height = decide(s, &ScheduleChoice::tile_rows, static_cast<int>(best->rows())),
                width = decide(s, &ScheduleChoice::tile_columns, static_cast<int>(best->columns()));
  ScalarTile tile = *best;
  for (const ScalarTile& t : kScalarTiles)
    if (t.rows() == height && t.columns() == width) tile = t;
  tile.shares = shares;
  return tile;
}

std::optional<ProductTiles> choose_product_tiles(const Scheduling& s, const ProductShape& shape, const IndexExpr& count,
                                                 const std::optional<LoopHead>& row, int64_t shares) {
  const int64_t least = least_of_many(s.target, shape.columns);
  const bool many = has_many(s, count, least, true);
  if (many) shares = 1;
  const int64_t all = typical_value(s, count).value_or(std::max(4 * least, kTypicalRows));
  const int64_t rows = std::max<int64_t>(1, row ? typical_value(s, row->extent).value_or(all) : 1);
  std::optional<ProductTiles> best;
  double least_cost = 0;
  const auto consider = [&](int64_t height, int64_t columns) {
    const auto t = make_tiles(s.target, shape, height, columns, !many);
    if (!t) return;
    const int64_t outer = std::max<int64_t>(1, all / rows);
    const int64_t across = (shape.columns + columns - 1) / columns, down = (rows + height - 1) / height;
    const double own = shares > 1 ? cost_of_shares(s.target, *t, shares * outer * down * across)
                                  : cost(s.target, shape, *t, rows, outer);
    if (!best || own < least_cost) best = *t, least_cost = own;
  };
  if (many) {
    for (const int64_t height : {32, 64})
      for (int64_t columns = 8; columns <= kMaxColumns && columns < shape.columns + 8; columns += 8)
        consider(height, columns);
  } else if (shares > 1) {
    for (const int64_t height : {64, 32, 16})
      for (const int64_t columns : {64, 32, 16}) consider(height, columns);
  } else {
    consider(16, shape.columns >= 1024 ? 32 : 16);
  }
  if (!best) return std::nullopt;
  const int64_t height = decide(s, &ScheduleChoice::tile_rows, static_cast<int>(best->rows)),
                columns = decide(s, &ScheduleChoice::tile_columns, static_cast<int>(best->columns));
  const bool fits = height > 0 && height <= 128 && height % ir::kMmaRows == 0 && columns > 0 && columns % 8 == 0;
  if (fits) best = make_tiles(s.target, shape, height, columns, !many).value_or(*best);
  best->shares = shares;
  return best;
}

}  // namespace fusec::compiler

// SPDX-License-Identifier: Apache-2.0
// The tiles in which a thread block computes a matrix product.
#pragma once

#include <optional>
#include <vector>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/cuda/patches.h"

namespace fusec::compiler {

// Elements behind each row of a tile, so that rows begin in different banks.
inline constexpr int64_t kTilePad = 8;

inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// A product of `terms` for each of `columns` results of a row.
struct ProductShape {
  int64_t terms = 0, columns = 0;
  std::optional<Patches> patches;  // that the rows are

  // Whether matrix instructions read patches where they lie under the windows.
  bool in_place() const {
    return patches && patches->step % 2 == 0 && patches->width % 2 == 0 && ir::kMmaTerms % patches->width == 0;
  }
  int64_t positions(int64_t rows) const { return (rows - 1) * patches->step + patches->width; }  // under their windows
};

// The terms of a product, divided among the blocks of a cluster: each computes the sums of its share, and the sums of
// all shares are added in the order of their terms.
struct TermShares {
  int64_t count = 1, terms = 0;  // terms: of a share; the last one may have fewer
};
// The shares for products of few rows, which depend on the numbers of terms and columns alone; one where these are not
// known, where the target has no clusters and where sums must not be split.
TermShares find_shares(const Scheduling& s, const IndexExpr& terms, const IndexExpr& columns);

struct ProductTiles {
  int64_t rows = 0, columns = 0, chunk = 0;  // chunk: terms that are in shared memory at once
  int64_t row_warps = 1, column_warps = 1;
  int64_t shares = 1;  // blocks that compute the tile

  int64_t threads() const { return row_warps * column_warps * kWarp; }
  int64_t chunks(int64_t terms) const { return (terms + chunk - 1) / chunk; }
  int64_t kept_rows() const { return row_warps * ir::kMmaRows; }  // whose results are in shared memory at once
  // Lines of patches, with those of zeros behind them that the last chunk reads.
  int64_t lines(const ProductShape& p) const {
    return (chunks(p.terms) * chunk + p.patches->width - 1) / p.patches->width;
  }
};

// The tile of a product by scalar arithmetic. Thread (i, j) of thread_rows x thread_columns has the results of rows
// i + thread_rows * 0, 1, ... and of columns j + thread_columns * 0, 1, ...
struct ScalarTile {
  int64_t thread_rows = 0, thread_columns = 0;
  int64_t rows_of_thread = 0, columns_of_thread = 0;
  int64_t shares = 1;  // blocks that compute the tile

  int64_t rows() const { return thread_rows * rows_of_thread; }
  int64_t columns() const { return thread_columns * columns_of_thread; }
  // Terms that are in shared memory at once: more where a thread loads few elements of each.
  int64_t chunk() const { return (rows() + columns()) * 8 <= thread_rows * thread_columns * 3 ? 64 : 32; }
};
// Whether the terms of a product of 16-bit factors with `count` rows are divided.
bool divides_terms(const Scheduling& s, const ProductShape& shape, const IndexExpr& count);

// `count` is the number of rows of all products, `row_count` that of one, `shares` that of the shares of the terms if
// there are few rows. The order of sums depends on the number of shares alone.
ScalarTile choose_scalar_tile(const Scheduling& s, const IndexExpr& count, const IndexExpr& row_count,
                              const IndexExpr& columns, int64_t shares);

// The tiles for the loops over rows, the innermost of which is `row`, if there are any, and for the choice at hand;
// nullopt: there are none. `count` is the number of rows, `shares` that of the shares of the terms if there are few.
std::optional<ProductTiles> choose_product_tiles(const Scheduling& s, const ProductShape& shape, const IndexExpr& count,
                                                 const std::optional<ir::LoopHead>& row, int64_t shares = 1);

}  // namespace fusec::compiler

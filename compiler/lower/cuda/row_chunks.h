// SPDX-License-Identifier: Apache-2.0
// What a thread reads and computes of a long row. A row is a sequence of chunks: thread l of a warp adds, lane by lane,
// the accesses j = 0 ... of `lanes` elements each that begin at element
//
//   ((chunk*steps + j)*32 + l)*lanes
//
// Lanes and threads of a chunk combine by pairs, chunks by a balanced tree in index order. The chunks depend on the
// row's length and type alone, so every schedule (long_rows.cpp) gives the same bits.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "compiler/lower/cuda/families.h"

namespace fusec::compiler {

inline constexpr int64_t kMinSteps = 4;  // accesses of a thread in a chunk: enough loads under way
inline constexpr int64_t kStepsUnrolled = 8;

// The power of two from n on, which counts as 1 if it is less.
inline int64_t ceil_power(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A block's share of a row: warp w takes the chunks (slice*warps + w)*chunks ...
struct Slices {
  int64_t warps = 1, chunks = 1, count = 1;
  int64_t threads() const { return warps * kWarp; }
};

// An access of a thread.
struct RowPlace {
  VarId slice, w, c, l, j;
  IndexExpr number;  // of the access within the row
  std::vector<ir::LoopHead> heads;
};
RowPlace place_of(ir::Kernel& kernel, const Chunks& chunks, const Slices& slices, VarId slice);
// Whether the index differs between accesses, or between the lanes of one.
bool moves(const std::vector<IndexExpr>& index, const RowPlace& p);
bool uses_any(const std::vector<IndexExpr>& index, const std::vector<ir::LoopHead>& heads);

// The body for one access. Lanes divide the row, so an access is inside or outside as a whole.
ir::Block accessed(ir::Kernel& kernel, const std::vector<ir::LoopHead>& loops, const ir::Block& body,
                   const Chunks& chunks, const RowPlace& p);

// Whether any order of the elements gives the same bits.
bool is_order_free(const ir::Kernel& kernel, const ir::Reduce& reduce);
// As many accesses as it takes to read 16 bytes.
int64_t narrowness_of(const ir::Kernel& kernel, const ir::Reduce& reduce);
// Reduces a block's share of a row. `backward`: each thread reads its accesses from the last to the first.
ir::Stmt reduce_share(ir::Kernel& kernel, const ir::Reduce& row, const Slices& slices, VarId slice, bool backward);

}  // namespace fusec::compiler

// SPDX-License-Identifier: Apache-2.0
// How threads share rows, and rows share blocks (rows.cpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "compiler/lower/cuda/families.h"

namespace fusec::compiler {

inline constexpr int kMaxBlockThreads = 1024;
inline constexpr int kClusterSm = 90;        // the first architecture with clusters
inline constexpr int kClusterThreads = 256;  // of a block of a cluster: several fit on a multiprocessor
inline constexpr int kMaxBlocks = 8;         // of a cluster
inline constexpr int kMaxHeldElements = 64;  // of all values together, in 4-byte registers of one thread
inline constexpr int64_t kMaxStagedLength = 256;

struct RowShape {
  int lanes = 1;
  int threads = kWarp;   // of one row: a power of two, in each block of a cluster
  int held = 0;          // accesses per thread; 0: as many as the row has, one after another
  int rows = 1;          // of one block
  int blocks = 1;        // a cluster of these shares the threads
  int chunks = 1;        // of a warp, each of as many of the accesses
  int lane_stride = 1;   // elements from one lane of an access to the next
  bool runs = false;     // each thread takes one run of elements, of any length: lanes need not divide the row
  bool staged = false;   // the rows of a block pass through shared memory (staged_rows.cpp)
  bool reduces = false;  // and nothing as long as they is stored

  int warps() const { return std::max(1, threads / kWarp); }
  int steps() const { return held / chunks; }
  int warp_threads() const { return std::min(threads, kWarp); }
};

// The shape of rows of `length` elements, which accesses of `lanes` elements divide. It depends on these two alone,
// because it gives the order of sums.
RowShape shape_of_row(std::optional<int64_t> length, int lanes);
// The same for short rows of which 16 bytes are no whole part. Each thread takes a run of elements.
RowShape shape_of_short_odd_row(int64_t length, int64_t element_bytes);
// The same for longer ones, whose threads take elements in turn. `element_bytes`: of the widest element. Returns
// nullopt for those that no block or cluster holds.
std::optional<RowShape> shape_of_long_odd_row(int64_t length, int64_t element_bytes, bool has_clusters);
// Whether the row's block, or blocks, have shared memory for so many bytes of each element.
bool fits_in_shared(const RowShape& shape, int64_t length, int64_t held_bytes);

// --- row_clusters.cpp ---

// The shape of a long row for a cluster, if one can hold it and if there are rows for most multiprocessors.
std::optional<RowShape> shape_of_cluster(const Scheduling& s, const PerfectNest& nest);

// --- row_shape.cpp ---

// The number of rows of a block, each of which moves so many bytes. It does not change the order of sums.
int choose_rows_of_block(const Scheduling& s, const RowShape& shape, int64_t row_bytes, const IndexExpr& all_rows);

}  // namespace fusec::compiler

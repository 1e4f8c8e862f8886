// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: how many threads share a row, and how many rows share a block. A multiprocessor begins a block every
// 160 ns or so (measured on an H100), in which it could copy 4 KB. So a block has as many short rows as it takes to
// move more.

#include "compiler/lower/cuda/row_shape.h"

namespace fusec::compiler {

namespace {

constexpr int kMaxHeld = 8;           // accesses that a thread holds of one row
constexpr int kGroupThreads = 128;    // rows of fewer threads share a block
constexpr int kShortThreads = 256;    // of a block of short rows, if these have bytes enough
constexpr int kLongThreads = 512;     // of a row that is read again, or of unknown length
constexpr int64_t kThreadBytes = 64;  // the most that one thread takes of a staged row
constexpr int64_t kBlockBytes = 6144;

// Of odd rows whose threads take elements in turn.
constexpr int64_t kFewElements = 25;   // of a thread: blocks of 128 that hold so many are fastest for 3,073 halves
constexpr int64_t kMoreElements = 50;  // of 256 threads, which then still fit twice on a multiprocessor
constexpr int64_t kMaxElements = 64;   // of 512 threads, which have a multiprocessor to themselves
constexpr int kTurnLanes = 4;  // elements that a thread takes at once, 32 apart: they share tests and reciprocals
constexpr int64_t kSharedBytes = 96 << 10;      // of a block: two of them fit on a multiprocessor
constexpr int64_t kMaxSharedBytes = 200 << 10;  // of a block of the largest cluster

int power_of_two(int64_t n) {
  int p = 1;
  while (p < n && p < kMaxBlockThreads) p *= 2;
  return p;
}

bool is_short(const RowShape& shape) { return shape.runs || shape.threads < kWarp; }

}  // namespace

int64_t longest_held_row() { return int64_t{kMaxBlockThreads} * kMaxHeld * 4; }

// On an H100, 64 threads are fastest for rows up to 4 KB, 256 for 16 to 32 KB and 512 for 64 KB. Eight threads read 128
// bytes at once, a line of the cache. Three accesses of a warp take what 64 threads would in two, the second by half
// of them: norms of 768 halves in transformers are up to 2 % of a model faster.
RowShape shape_of_row(std::optional<int64_t> length, int lanes) {
  RowShape shape;
  shape.lanes = lanes;
  shape.threads = kLongThreads;
  if (!length) return shape;
  const int64_t accesses = (*length + lanes - 1) / lanes;
  shape.threads = accesses <= 32     ? std::min(8, power_of_two(accesses))
                  : accesses <= 64   ? 16
                  : accesses <= 96   ? 32
                  : accesses <= 256  ? 64
                  : accesses <= 512  ? 128
                  : accesses <= 2048 ? 256
                  : accesses <= 4096 ? 512
                                     : kMaxBlockThreads;
  const int64_t held = (accesses + shape.threads - 1) / shape.threads;
  if (held <= kMaxHeld) shape.held = static_cast<int>(held);
  return shape;
}

RowShape shape_of_short_odd_row(int64_t length, int64_t element_bytes) {
  RowShape shape;
  shape.runs = true;
  const int64_t most = kThreadBytes / std::max<int64_t>(2, element_bytes);
  shape.threads = power_of_two((length + most - 1) / most);
  shape.lanes = static_cast<int>((length + shape.threads - 1) / shape.threads);
  if (shape.threads > 1) shape.lanes |= 1;  // an even stride would have more bank conflicts
  shape.held = 1;
  return shape;
}

// Softmax by hand on an H100, each time the fastest shape: rows of 3,073 halves by 128 threads that hold 25 elements,
// of 10,007 by 256 of 40, of 50,257 by clusters of 4 x 256 of 50, or 8 x 256 of 25 for 4-byte elements.
std::optional<RowShape> shape_of_long_odd_row(int64_t length, int64_t element_bytes, bool has_clusters) {
  RowShape shape;
  shape.lanes = kTurnLanes;
  shape.lane_stride = kWarp;
  while (shape.threads < kClusterThreads && length > shape.threads * kFewElements) shape.threads *= 2;
  if (length > shape.threads * kMoreElements) {
    const int64_t elements = element_bytes < 4 ? kMoreElements : kFewElements;
    while (shape.blocks < kMaxBlocks && length > shape.blocks * kClusterThreads * elements) shape.blocks *= 2;
    shape.threads = shape.blocks * kClusterThreads;
    if (length > shape.threads * kMoreElements) shape.threads *= 2;
    if (!has_clusters || length > shape.threads * kMaxElements) return std::nullopt;
  }
  const int64_t at_once = int64_t{shape.threads} * shape.lanes;
  shape.held = static_cast<int>((length + at_once - 1) / at_once);
  return shape;
}

bool fits_in_shared(const RowShape& shape, int64_t length, int64_t held_bytes) {
  const int64_t bytes = (length + shape.blocks - 1) / shape.blocks * held_bytes;
  return bytes <= (shape.blocks == kMaxBlocks ? kMaxSharedBytes : kSharedBytes);
}

int choose_rows_of_block(const Scheduling& s, const RowShape& shape, int64_t row_bytes, const IndexExpr& all_rows) {
  // All 256 threads of a block load the rows that are only reduced, though fewer reduce them. Kernels written by hand
  // that average rows of 49 halves take 8.8 us in such blocks of 64 rows on an H100, and 9.4 us in blocks of 128.
  const int least = is_short(shape) && !shape.reduces ? kShortThreads : kGroupThreads;
  const int most = shape.runs ? kMaxBlockThreads : kLongThreads;
  int rows = std::max(1, least / shape.threads);
  while (2 * rows * shape.threads <= most && rows * row_bytes < kBlockBytes) rows *= 2;
  if (rows * shape.threads <= kWarp || has_many(s, all_rows, int64_t{rows} * s.target.sm_count, false)) return rows;
  // Few rows are spread over the multiprocessors. Where their number is not known, a block has no more than it needs.
  const auto known = typical_value(s, all_rows);
  const auto are_too_many = [&] {
    return known ? *known < int64_t{rows} * s.target.sm_count : rows / 2 * row_bytes >= 2 * kBlockBytes;
  };
  while (rows * shape.threads > kWarp && are_too_many()) rows /= 2;
  return rows;
}

}  // namespace fusec::compiler

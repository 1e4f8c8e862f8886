// SPDX-License-Identifier: Apache-2.0
// How many tiles of tile_product fill a GPU, and the shared memory of a thread block that computes some. Passes and
// lower choose by it, and the writer lays memory out.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fusec::ir {

inline constexpr int64_t kLargeTileRows = 128, kLargeTileColumns = 192;  // its sums take 192 registers of a thread

// The rows from which on tiles of that size are about as many as multiprocessors. Of fewer, a library splits the terms.
constexpr int64_t rows_that_fill(int64_t multiprocessors, int64_t columns) {
  const int64_t across = std::max<int64_t>(1, (columns + kLargeTileColumns - 1) / kLargeTileColumns);
  return kLargeTileRows * std::max<int64_t>(1, multiprocessors / across);
}

inline constexpr int64_t kTileGroups = 2;       // of threads that multiply, each with shared buffers of its own
inline constexpr int64_t kTileStageTerms = 64;  // terms of both factors in a stage
inline constexpr int64_t kMinTileStages = 3;    // one that is read, one behind it, and one that is filled
inline constexpr int64_t kMaxTileStages = 8;
inline constexpr int64_t kSharedAlignment = 16;  // of each buffer, in bytes

constexpr int64_t padded_shared(int64_t bytes) {
  return (bytes + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
}

// The stages of both factors come first, then a barrier of 8 bytes for each stage that is full, for each that is empty,
// and for each group's turn, then the buffers of the groups.
struct TileMemory {
  int64_t stages = 0;
  int64_t buffers = 0;  // where the buffers of the first group begin
  int64_t bytes = 0;    // of all
  bool fits() const { return stages >= kMinTileStages; }
};

// For tiles of so many rows and columns of 16-bit factors, kernels whose shared buffers take `own` bytes, and at most
// `limit` bytes in a block.
constexpr TileMemory plan_tile_memory(int64_t rows, int64_t columns, int64_t own, int64_t limit) {
  const auto barriers = [](int64_t stages) { return padded_shared((2 * stages + kTileGroups) * 8); };
  const int64_t stage = (rows + columns) * kTileStageTerms * 2,
                left = limit - kTileGroups * own - barriers(kMaxTileStages);
  TileMemory out;
  out.stages = std::clamp<int64_t>(left / stage, 0, kMaxTileStages);
  out.buffers = out.stages * stage + barriers(out.stages);
  out.bytes = out.buffers + kTileGroups * own;
  return out;
}

}  // namespace fusec::ir

// SPDX-License-Identifier: Apache-2.0
// The PTX of a product of tiles by the warpgroup instructions of sm_90, which LLVM 19 does not have, as the text of
// inline assembly. docs/decisions/036-warpgroup-products.md says what the three warpgroups of a block do.
//
// Shared memory begins with the stages: of each, the rows of the first factor and then those of the second one, 64
// terms or 128 bytes each. The 16-byte piece c of row r lies at c xor (r mod 8), which is the swizzle of 128 bytes that
// the descriptors name. Behind the stages lie a barrier for each stage that is full, which counts the 128 threads whose
// copies have come, one for each that is empty, which counts the four warps that have read it, and one for the turn of
// each group. All addresses are those of the shared window, in 32 bits.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/kernel/tiles.h"

namespace fusec::codegen::nvptx {

struct TileLayout {
  TileShape shape;
  int64_t stages = 0;

  int64_t first_bytes() const { return shape.rows * kRowBytes; }  // of the first factor in a stage
  int64_t stage_bytes() const { return (shape.rows + shape.columns) * kRowBytes; }
  int64_t full() const { return stages * stage_bytes(); }  // where barriers begin, from the first stage
  int64_t empty() const { return full() + stages * kBarrierBytes; }
  int64_t turns() const { return empty() + stages * kBarrierBytes; }
  // Whether the warpgroup that fills leaves registers to those that multiply: where sums take more than the 168 that a
  // thread of three warpgroups can have.
  bool shares_registers() const { return shape.sums() > 168; }

  static constexpr int64_t kRowBytes = ir::kTileStageTerms * 2, kBarrierBytes = 8;
};

struct AsmText {
  std::string text, constraints;
};

// (first stage) Thread 0 opens the barriers. A barrier of all threads must follow.
AsmText open_tile_barriers(const TileLayout& layout);

// (first stage, stage, parity, thread's piece in a stage, its address in a, bytes to the row it copies next, rows from
// its own one, the same three of b, terms from its own one, chunks of terms) -> stage, parity.
// Streams one tile, a chunk of terms for each stage.
AsmText fill_stages(const TileLayout& layout);
inline constexpr int64_t kFillRowsAtOnce = ir::kTileThreads / 8;

// (first stage, stage, parity, barrier of its turn, parity of that, barrier of the other group's turn, chunks of
// terms, and what only an emulation reads) -> the sums in the order of the reg buffer, stage, parity.
// The stage and the parity are those behind the tile that the other group multiplies next.
AsmText multiply_stages(const TileLayout& layout, int unread);

}  // namespace fusec::codegen::nvptx

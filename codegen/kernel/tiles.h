// SPDX-License-Identifier: Apache-2.0
// What both GPU writers ask of kernels with a tile_product.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/kernel/layout.h"
#include "ir/kernel/kernel.h"
#include "ir/kernel/tile_memory.h"

namespace fusec::codegen {

// Warpgroups of a block: those that multiply, and the last one, which fills the stages.
inline constexpr int kWarpgroups = ir::kTileGroups + 1;

struct TileShape {
  int64_t rows = 0, columns = 0;
  bool bf16 = false;
  int64_t sums() const { return rows * columns / ir::kTileThreads; }  // of a thread
};

// The products in the body of the phase, outside of its loops.
std::vector<const ir::TileProduct*> tile_products(const Phase& phase);
// Empty where the sums are not those of one tile.
std::optional<TileShape> tile_shape(const ir::Kernel& kernel, const ir::TileProduct& product);
// Whether warps read what others have stored to shared memory, so that the next tile must not overwrite it.
bool joins_warps(const Phase& phase);

}  // namespace fusec::codegen

// SPDX-License-Identifier: Apache-2.0
// Finds products of tiles in a phase, the size of their tiles, and what the warps of a tile share.

#include "codegen/kernel/tiles.h"

#include <algorithm>

namespace fusec::codegen {

std::vector<const ir::TileProduct*> tile_products(const Phase& phase) {
  std::vector<const ir::TileProduct*> out;
  for (const ir::Stmt* stmt : phase.body)
    if (const auto* product = std::get_if<ir::TileProduct>(&stmt->v)) out.push_back(product);
  return out;
}

std::optional<TileShape> tile_shape(const ir::Kernel& kernel, const ir::TileProduct& product) {
  const ir::Buffer& sums = kernel.buffers[product.sums];
  if (sums.shape.size() != 3 || !sums.shape[0].is_const() || !sums.shape[1].is_const()) return std::nullopt;
  return TileShape{sums.shape[0].value() * ir::kTileRows, sums.shape[1].value() * ir::kTileColumns,
                   kernel.buffers[product.a].dtype == DType::bf16};
}

bool joins_warps(const Phase& phase) {
  const auto joins = [](const ir::Stmt& stmt) {
    const auto* sync = std::get_if<ir::Sync>(&stmt.v);
    return sync != nullptr && sync->scope != ir::SyncScope::warp;
  };
  return std::any_of(phase.body.begin(), phase.body.end(), [&](const ir::Stmt* stmt) {
    bool found = joins(*stmt);
    for (const ir::Block* nested : ir::nested_blocks(*stmt))
      ir::for_each_stmt(*nested, [&](const ir::Stmt& inner) { found |= joins(inner); });
    return found;
  });
}

}  // namespace fusec::codegen

// SPDX-License-Identifier: Apache-2.0
// What the schedules of matrix products share: tiles in shared memory, and the threads of a block that fill and read
// them.
#pragma once

#include <vector>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

// Iterations of a nest of loops, of which those that run once are left out: they would not count as axes of buffers.
struct TileAxis {
  ir::LoopTag tag;
  VarId var;
  int64_t extent;
  IndexExpr at() const { return extent > 1 ? IndexExpr::symbol(var) : IndexExpr(0); }
};
std::vector<TileAxis> used_axes(std::vector<TileAxis> axes);
ir::Stmt loop_over(const std::vector<TileAxis>& axes, ir::Block body);

// The threads of a block over the accesses of a tile: threads that follow each other take accesses of one row, or the
// same access of several rows.
struct TileWalk {
  int64_t lanes;
  TileAxis group, thread, step, turn;
  IndexExpr row() const { return step.at() * group.extent + group.at(); }
  IndexExpr column() const { return (turn.at() * thread.extent + thread.at()) * lanes; }
  bool down_rows;
  std::vector<TileAxis> axes() const {
    if (down_rows) return {thread, group, step, turn};
    return {group, thread, step, turn};
  }
};
TileWalk make_walk(ir::Kernel& kernel, int64_t threads, int64_t rows, int64_t accesses, int64_t lanes, bool down_rows);

// A buffer in shared memory whose rows lie `pitch` elements apart. The axes in front are those of `outer` that are no
// 1: the blocks of a cluster, each of which has a tile, and the stages of a tile.
ir::BufferId add_tile(ir::Kernel& kernel, const char* name, DType dtype, int64_t rows, int64_t pitch, int64_t columns,
                      const std::vector<int64_t>& outer = {});
// Whether the block makes 0 of loads that yield 0.
bool keeps_zeros(const ir::Block& block);
// Adds the conditions to the load, which yields 0 where they do not hold.
void guard_load(const ir::Kernel& kernel, ir::Load& load, const ir::Guard& guard);
// Stores zeros in so many lanes.
void add_zeros(ir::Kernel& kernel, ir::Block& to, ir::BufferId buffer, std::vector<IndexExpr> index, int64_t lanes,
               ir::Guard guard);

}  // namespace fusec::compiler

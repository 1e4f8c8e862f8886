// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: tiles of matrix products, and the threads that fill and read them.

#include "compiler/lower/cuda/tile_walk.h"

#include <algorithm>

#include "compiler/lower/rewrite/kernel_names.h"

namespace fusec::compiler {

std::vector<TileAxis> used_axes(std::vector<TileAxis> axes) {
  std::erase_if(axes, [](const TileAxis& axis) { return axis.extent == 1; });
  return axes;
}

Stmt loop_over(const std::vector<TileAxis>& axes, Block body) {
  std::vector<LoopHead> heads;
  for (const TileAxis& axis : used_axes(axes)) heads.push_back({axis.tag, axis.var, axis.extent});
  if (heads.empty()) heads.push_back({LoopTag::unroll, axes[0].var, 1});
  return rebuild_loops(heads, std::move(body));
}

TileWalk make_walk(ir::Kernel& kernel, int64_t threads, int64_t rows, int64_t accesses, int64_t lanes, bool down_rows) {
  const auto part = [](int64_t of, int64_t most) { return largest_divisor(of, std::clamp<int64_t>(most, 1, of)); };
  const int64_t first = down_rows ? part(rows, threads) : part(accesses, threads);
  const int64_t second = part(down_rows ? accesses : rows, threads / first);
  const int64_t side_by_side = down_rows ? second : first, groups = down_rows ? first : second;
  return {lanes,
          {LoopTag::block, add_var(kernel), groups},
          {LoopTag::block, add_var(kernel), side_by_side},
          {LoopTag::unroll, add_var(kernel), rows / groups},
          {LoopTag::unroll, add_var(kernel), accesses / side_by_side},
          down_rows};
}

BufferId add_tile(ir::Kernel& kernel, const char* name, DType dtype, int64_t rows, int64_t pitch, int64_t columns,
                  const std::vector<int64_t>& outer) {
  ir::IndexShape shape;
  for (const int64_t extent : outer)
    if (extent > 1) shape.push_back(extent);
  shape.insert(shape.end(), {rows, columns});
  return add_buffer(kernel, {name + std::to_string(kernel.buffers.size()),
                             ir::Space::shared,
                             dtype,
                             std::move(shape),
                             {},
                             0,
                             "pitch " + std::to_string(pitch)});
}

bool keeps_zeros(const Block& block) {
  return std::all_of(block.begin(), block.end(), [](const Stmt& stmt) {
    if (const auto* load = std::get_if<ir::Load>(&stmt.v))
      return load->guard.empty() || (load->otherwise.f == 0 && load->otherwise.i == 0);
    const auto* let = std::get_if<ir::Let>(&stmt.v);
    return let != nullptr && let->op == ir::ScalarOp::cast;
  });
}

void guard_load(const ir::Kernel& kernel, ir::Load& load, const ir::Guard& guard) {
  if (load.guard.empty()) load.otherwise = {kernel.buffers[load.buffer].dtype};
  load.guard.insert(load.guard.end(), guard.begin(), guard.end());
}

void add_zeros(ir::Kernel& kernel, Block& to, BufferId buffer, std::vector<IndexExpr> index, int64_t lanes,
               ir::Guard guard) {
  const DType dtype = kernel.buffers[buffer].dtype;
  const RegId zero = add_reg(kernel, dtype, static_cast<int>(lanes));
  const Operand none = ir::float_constant(dtype, 0);
  to.push_back({ir::Let{zero, ir::ScalarOp::where, {ir::int_constant(DType::bool_, 1), none, none}}});
  to.push_back({ir::Store{buffer, std::move(index), zero, std::move(guard), ir::StoreHint::none}});
}

}  // namespace fusec::compiler

// SPDX-License-Identifier: Apache-2.0
// Handles whole local buffers in the LLVM writers: their addresses and slots, transposes of square tiles in registers,
// and block copies as loops.

#include <bit>

#include "codegen/llvm/writer.h"
#include "ir/support/check.h"

namespace fusec::codegen {
namespace {

using llvm::Value;

// The position of a scratch buffer, after the parameters.
int64_t scratch_position(const ir::Kernel& kernel, ir::BufferId id) {
  auto position = static_cast<int64_t>(kernel.params.size());
  for (uint32_t i = 0; i < id.index; ++i) position += kernel.buffers[ir::BufferId{i}].space == ir::Space::scratch;
  return position;
}

// Transposes a square tile: at stage s, the two off-diagonal s x s blocks of every 2s x 2s block are swapped.
void transpose_rows(Writer& w, std::vector<Value*>& rows) {
  const int n = static_cast<int>(rows.size());
  for (int s = 1; s < n; s *= 2) {
    std::vector<int> low(static_cast<std::size_t>(n)), high(static_cast<std::size_t>(n));
    for (int k = 0; k < n; ++k) {
      const auto at = static_cast<std::size_t>(k);
      low[at] = k & s ? n + k - s : k;
      high[at] = k & s ? n + k : k + s;
    }
    for (int i = 0; i < n; ++i) {
      if (i & s) continue;
      Value *&a = rows[static_cast<std::size_t>(i)], *&b = rows[static_cast<std::size_t>(i + s)];
      Value* upper = w.ir.b.CreateShuffleVector(a, b, low);
      b = w.ir.b.CreateShuffleVector(a, b, high);
      a = upper;
    }
  }
}

IndexExpr shape_product(const ir::IndexShape& shape, std::size_t from) {
  IndexExpr out(1);
  for (std::size_t i = from; i < shape.size(); ++i) out *= shape[i];
  return out;
}

int tile_size(const ir::Buffer& buffer) {
  const ir::IndexShape& shape = buffer.shape;
  const bool square = shape.size() >= 2 && shape.back().is_const() && shape[shape.size() - 2] == shape.back() &&
                      shape_product(shape, 0) == shape_product(shape, shape.size() - 2);
  if (!square) throw UnsupportedKernel("'" + buffer.name + "' is not one square tile");
  return static_cast<int>(shape.back().value());
}

// The address of row i of a tile, in a slot or in memory.
Value* row_pointer(Writer& w, ir::BufferId id, int i, int n) {
  const LocalBuffer& local = w.locals.buffers.at(id);
  if (local.slots) return get_slots(w, id)[static_cast<std::size_t>(i)];
  const ir::Buffer& buffer = w.kernel.buffers[id];
  const ir::IndexShape strides = compute_strides(buffer);
  const IndexExpr pitch = n == 1 ? IndexExpr(1) : strides[strides.size() - 2];
  return w.index.pointer(get_base_address(w, id), memory_type(w.ir, buffer.dtype), pitch * i);
}

}  // namespace

Value* get_base_address(Writer& w, ir::BufferId id) {
  Value*& base = w.bases[id];
  if (base) return base;
  const ir::Space space = w.kernel.buffers[id].space;
  if (space == ir::Space::reg || space == ir::Space::shared) return base = w.local(id);
  if (space == ir::Space::scratch) return base = w.buffer(scratch_position(w.kernel, id));
  for (std::size_t i = 0; i < w.kernel.params.size(); ++i) {
    if (w.kernel.params[i] == id) return base = w.buffer(static_cast<int64_t>(i));
  }
  FUSEC_CHECK(false) << "buffer '" << w.kernel.buffers[id].name << "' is no parameter";
  return nullptr;
}

const std::vector<llvm::AllocaInst*>& get_slots(Writer& w, ir::BufferId id) {
  std::vector<llvm::AllocaInst*>& slots = w.slots[id];
  if (slots.empty()) {
    const LocalBuffer& local = w.locals.buffers.at(id);
    llvm::Type* type = raw_type(w.ir, w.kernel.buffers[id].dtype, local.width);
    for (int64_t i = 0; i < local.count; ++i) slots.push_back(stack_slot(w.ir, type));
    w.promotable.insert(w.promotable.end(), slots.begin(), slots.end());
  }
  return slots;
}

void write_transpose(Writer& w, const ir::TransposeTile& stmt) {
  const int n = tile_size(w.kernel.buffers[stmt.src]);
  if (!std::has_single_bit(static_cast<unsigned>(n))) throw UnsupportedKernel("tiles must be a power of two wide");
  const bool src_slots = w.locals.buffers.at(stmt.src).slots, dst_slots = w.locals.buffers.at(stmt.dst).slots;
  const DType dtype = w.kernel.buffers[stmt.src].dtype;
  const llvm::Align element(size_of(dtype));
  std::vector<Value*> rows;
  for (int i = 0; i < n; ++i) {
    Value* at = row_pointer(w, stmt.src, i, n);
    llvm::Type* type = src_slots ? raw_type(w.ir, dtype, n) : memory_type(w.ir, dtype, n);
    Value* row = src_slots ? w.ir.b.CreateLoad(type, at) : w.ir.b.CreateAlignedLoad(type, at, element);
    rows.push_back(src_slots ? row : from_memory(w.ir, dtype, row));
  }
  transpose_rows(w, rows);
  for (int i = 0; i < n; ++i) {
    Value *at = row_pointer(w, stmt.dst, i, n), *row = rows[static_cast<std::size_t>(i)];
    if (dst_slots) {
      w.ir.b.CreateStore(row, at);
    } else {
      w.ir.b.CreateAlignedStore(to_memory(w.ir, dtype, row), at, element);
    }
  }
}

void write_copy_loops(Writer& w, const ir::CopyAsync& stmt) {
  const ir::Buffer &src = w.kernel.buffers[stmt.src], &dst = w.kernel.buffers[stmt.dst];
  llvm::Type* type = memory_type(w.ir, src.dtype);
  std::vector<IndexExpr> from = stmt.src_index, to = stmt.dst_index;
  Value* holds = guard_mask(w, stmt.guard, 1);
  const std::function<void(std::size_t)> nest = [&](std::size_t axis) {
    if (axis == stmt.extents.size()) {
      const auto read = [&]() -> Value* {
        return w.ir.b.CreateLoad(
            type, w.index.pointer(get_base_address(w, stmt.src), type, w.index.resolve(linear_index(src, from))));
      };
      const auto zero = [&]() -> Value* { return llvm::Constant::getNullValue(type); };
      Value* v = holds == nullptr ? read() : branch(w.ir, holds, read, zero);
      w.ir.b.CreateStore(v,
                         w.index.pointer(get_base_address(w, stmt.dst), type, w.index.resolve(linear_index(dst, to))));
      return;
    }
    // The box covers the last axes of both buffers.
    const std::size_t s = src.shape.size() - stmt.extents.size() + axis,
                      d = dst.shape.size() - stmt.extents.size() + axis;
    const ir::VarId var{static_cast<uint32_t>(w.kernel.vars.size() + axis)};
    from[s] += IndexExpr::symbol(var);
    to[d] += IndexExpr::symbol(var);
    write_loop(w, {ir::LoopTag::seq, var, stmt.extents[axis]}, [&] { nest(axis + 1); });
  };
  nest(0);
}

}  // namespace fusec::codegen

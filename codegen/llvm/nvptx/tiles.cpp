// SPDX-License-Identifier: Apache-2.0
// Writes kernels with a tile_product for NVPTX, as codegen/cuda/tiles.cpp does: the function has three warpgroups and
// as many blocks as there are multiprocessors, each of which takes tiles in turn.

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>

#include "codegen/llvm/access.h"
#include "codegen/llvm/nvptx/tile_asm.h"
#include "codegen/llvm/nvptx/writer.h"

namespace fusec::codegen::nvptx {
namespace {

using llvm::Value;

Value* word(GpuWriter& w, int64_t v) { return w.ir.b.getInt32(static_cast<uint32_t>(v)); }

Value* call_asm(GpuWriter& w, llvm::Type* result, const AsmText& text, const std::vector<Value*>& args) {
  std::vector<llvm::Type*> types;
  for (const Value* v : args) types.push_back(v->getType());
  llvm::CallInst* call =
      w.ir.b.CreateCall(llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), text.text, text.constraints,
                                             /*hasSideEffects=*/true),
                        args);
  call->setConvergent();
  return call;
}

void call_asm(GpuWriter& w, const std::string& text) { call_asm(w, w.ir.b.getVoidTy(), {text, "~{memory}"}, {}); }

// A word that changes while the function runs.
llvm::AllocaInst* variable(GpuWriter& w, Value* first) {
  llvm::AllocaInst* slot = stack_slot(w.ir, w.ir.b.getInt32Ty());
  w.promotable.push_back(slot);
  w.ir.b.CreateStore(first, slot);
  return slot;
}
Value* read(GpuWriter& w, llvm::AllocaInst* slot) { return w.ir.b.CreateLoad(slot->getAllocatedType(), slot); }

// One factor of a tile.
struct Factor {
  Value *at, *pitch, *rows;  // of its first row; elements from a row to the next; rows that there are, of the tile's
};

Factor factor(GpuWriter& w, ir::BufferId id, const std::vector<IndexExpr>& index, const IndexExpr& pitch,
              const IndexExpr& rows, int64_t most) {
  const auto value = [&](const IndexExpr& e) {
    return w.ir.b.CreateTrunc(w.index.value(w.index.resolve(e)), w.ir.b.getInt32Ty());
  };
  const IndexExpr at = w.index.resolve(linear_index(w.kernel.buffers[id], index));
  return {w.index.pointer(get_base_address(w, id), w.ir.b.getInt16Ty(), at), value(pitch),
          value(min(rows, IndexExpr(most)))};
}

// Stores the first values of a structure to the slots of a buffer, in the order of its elements.
void store_slots(GpuWriter& w, ir::BufferId id, Value* values) {
  auto& b = w.ir.b;
  unsigned at = 0;
  for (llvm::AllocaInst* slot : get_slots(w, id)) {
    llvm::Type* const type = slot->getAllocatedType();
    if (!type->isVectorTy()) {
      b.CreateStore(b.CreateExtractValue(values, at++), slot);
      continue;
    }
    Value* lanes = llvm::PoisonValue::get(type);
    for (int k = 0; k < w.locals.buffers.at(id).width; ++k)
      lanes = b.CreateInsertElement(lanes, b.CreateExtractValue(values, at++), static_cast<uint64_t>(k));
    b.CreateStore(lanes, slot);
  }
}

// What the parts of the function share. Words of the entry block.
struct Tiles {
  const ir::TileProduct& product;
  TileLayout layout;
  Value *memory = nullptr, *group = nullptr, *chunks = nullptr, *terms = nullptr;
  Value *stage = nullptr, *parity = nullptr;  // where the group begins
  bool has_buffers = false;                   // in shared memory, of the kernel's statements
};

Factor first_factor(GpuWriter& w, const Tiles& tiles) {
  return factor(w, tiles.product.a, tiles.product.a_index, tiles.product.a_pitch, tiles.product.rows,
                tiles.layout.shape.rows);
}
Factor second_factor(GpuWriter& w, const Tiles& tiles) {
  return factor(w, tiles.product.b, tiles.product.b_index, tiles.product.b_pitch, tiles.product.columns,
                tiles.layout.shape.columns);
}

// The bytes of shared memory that the kernel's statements use, and where each buffer lies among them.
int64_t plan_buffers(const GpuWriter& w, std::vector<std::pair<ir::BufferId, int64_t>>& offsets) {
  int64_t bytes = 0;
  for (uint32_t i = 0; i < w.kernel.buffers.size(); ++i) {
    const ir::Buffer& buffer = w.kernel.buffers[ir::BufferId{i}];
    if (buffer.space != ir::Space::shared) continue;
    const IndexExpr count = buffer.shape.empty() ? IndexExpr(1) : buffer.shape[0] * compute_strides(buffer)[0];
    if (!count.is_const()) throw UnsupportedKernel("'" + buffer.name + "' has a number of elements that is not known");
    offsets.emplace_back(ir::BufferId{i}, bytes);
    bytes += ir::padded_shared(count.value() * static_cast<int64_t>(size_of(buffer.dtype)));
  }
  return bytes;
}

// body() for the tiles of a group, from its first one on, every `step`-th of `all`, with the grid variables bound.
template <class Body>
void loop_over_tiles(GpuWriter& w, const Phase& phase, Value* first, Value* step, Value* all, const Body& body) {
  auto& b = w.ir.b;
  const auto block = [&](const char* name) {
    return llvm::BasicBlock::Create(b.getContext(), name, w.phase_function.function);
  };
  llvm::BasicBlock *const head = block("tile"), *const inside = block("tile.body"), *const exit = block("");
  llvm::BasicBlock* const before = b.GetInsertBlock();
  b.CreateCondBr(b.CreateICmpULT(first, all), head, exit);
  b.SetInsertPoint(head);
  llvm::PHINode* const number = b.CreatePHI(b.getInt32Ty(), 2, "number");
  number->addIncoming(first, before);
  b.CreateBr(inside);
  w.index.push(head);
  b.SetInsertPoint(head->getTerminator());
  bind_heads(w, phase.grid, number, /*at_entry=*/false);
  b.SetInsertPoint(inside);
  body();
  w.index.pop();
  for (const ir::LoopHead& grid : phase.grid) w.index.unbind(grid.var);
  Value* const next = b.CreateAdd(number, step);
  number->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpULT(next, all), head, exit);
  b.SetInsertPoint(exit);
}

// The warpgroup that streams the factors of all tiles.
void write_filling(GpuWriter& w, const Phase& phase, const Tiles& tiles, Value* all) {
  auto& b = w.ir.b;
  if (tiles.layout.shares_registers()) call_asm(w, "setmaxnreg.dec.sync.aligned.u32 24;");
  llvm::AllocaInst *const stage = variable(w, tiles.stage), *const parity = variable(w, tiles.parity);
  Value* const thread = b.CreateAnd(b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {}, {}), 127);
  Value *const row = b.CreateLShr(thread, 3), *const piece = b.CreateAnd(thread, 7);
  Value* const to = b.CreateAdd(b.CreateAdd(tiles.memory, b.CreateMul(row, word(w, TileLayout::kRowBytes))),
                                b.CreateShl(b.CreateXor(piece, b.CreateAnd(row, 7)), 4));
  Value* const lanes = b.CreateMul(piece, word(w, ir::kTileLanes));
  const auto own = [&](const Factor& of) {  // address, bytes to the row that it copies next, and rows from its own
    Value* const element =
        b.CreateAdd(b.CreateMul(b.CreateZExt(row, b.getInt64Ty()), b.CreateZExt(of.pitch, b.getInt64Ty())),
                    b.CreateZExt(lanes, b.getInt64Ty()));
    return std::vector<Value*>{b.CreateGEP(b.getInt16Ty(), of.at, element),
                               b.CreateMul(of.pitch, word(w, 2 * kFillRowsAtOnce)), b.CreateSub(of.rows, row)};
  };
  Value *const block = b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {}, {}),
               *const blocks = b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x, {}, {});
  loop_over_tiles(w, phase, block, blocks, all, [&] {
    std::vector<Value*> args = {tiles.memory, read(w, stage), read(w, parity), to};
    for (Value* v : own(first_factor(w, tiles))) args.push_back(v);
    for (Value* v : own(second_factor(w, tiles))) args.push_back(v);
    args.insert(args.end(), {b.CreateSub(tiles.terms, lanes), tiles.chunks});
    auto* const result = llvm::StructType::get(b.getContext(), {b.getInt32Ty(), b.getInt32Ty()});
    Value* const next = call_asm(w, result, fill_stages(tiles.layout), args);
    b.CreateStore(b.CreateExtractValue(next, 0), stage);
    b.CreateStore(b.CreateExtractValue(next, 1), parity);
  });
  call_asm(w, "cp.async.wait_all;");
}

// The warpgroups that multiply.
void write_multiplying(GpuWriter& w, const Phase& phase, const Tiles& tiles, Value* all) {
  auto& b = w.ir.b;
  if (tiles.layout.shares_registers()) call_asm(w, "setmaxnreg.inc.sync.aligned.u32 240;");
  llvm::AllocaInst* const stage = variable(w, tiles.stage);
  llvm::AllocaInst* const parity = variable(w, tiles.parity);
  Value* const other = b.CreateXor(tiles.group, 1);
  llvm::AllocaInst* const turn = variable(w, other);
  const auto barrier = [&](Value* group) {
    return b.CreateAdd(b.CreateMul(group, word(w, TileLayout::kBarrierBytes)),
                       b.CreateAdd(tiles.memory, word(w, tiles.layout.turns())));
  };
  Value *const own_turn = barrier(tiles.group), *const other_turn = barrier(other);
  w.multiply_tile = [&] {
    const Factor first = first_factor(w, tiles), second = second_factor(w, tiles);
    const std::vector<Value*> unread = {first.at,     first.pitch, first.rows, second.at,
                                        second.pitch, second.rows, tiles.terms};
    std::vector<Value*> args = {tiles.memory,  read(w, stage), read(w, parity), own_turn,
                                read(w, turn), other_turn,     tiles.chunks};
    args.insert(args.end(), unread.begin(), unread.end());
    const int64_t sums = tiles.layout.shape.sums();
    std::vector<llvm::Type*> types(static_cast<std::size_t>(sums), b.getFloatTy());
    types.insert(types.end(), 2, b.getInt32Ty());
    Value* const result = call_asm(w, llvm::StructType::get(b.getContext(), types),
                                   multiply_stages(tiles.layout, static_cast<int>(unread.size())), args);
    store_slots(w, tiles.product.sums, result);
    b.CreateStore(b.CreateExtractValue(result, static_cast<unsigned>(sums)), stage);
    b.CreateStore(b.CreateExtractValue(result, static_cast<unsigned>(sums) + 1), parity);
    b.CreateStore(b.CreateXor(read(w, turn), 1), turn);
  };
  w.sync_group = [&] {
    call_asm(w, b.getVoidTy(), {"bar.sync $0, 128;", "r,~{memory}"}, {b.CreateAdd(tiles.group, word(w, 1))});
  };
  Value *const block = b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {}, {}),
               *const blocks = b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x, {}, {});
  Value* const start = b.CreateAdd(block, b.CreateMul(tiles.group, blocks));
  loop_over_tiles(w, phase, start, b.CreateMul(blocks, word(w, ir::kTileGroups)), all, [&] {
    for (const ir::Stmt* stmt : phase.body) write_stmt(w, *stmt);
    if (!tiles.has_buffers) return;
    // The next tile has the same buffers.
    if (joins_warps(phase))
      w.sync_group();
    else
      b.CreateIntrinsic(llvm::Intrinsic::nvvm_bar_warp_sync, {}, {word(w, -1)});
  });
}

}  // namespace

void write_tiles(GpuWriter& w, const Phase& phase, llvm::BasicBlock* body) {
  auto& b = w.ir.b;
  b.SetInsertPoint(w.phase_function.entry->getTerminator());
  const std::vector<const ir::TileProduct*> products = tile_products(phase);
  if (!w.ir.target.has_tile_products) throw UnsupportedKernel("no products of tiles on " + w.ir.target.name);
  if (products.size() != 1 || phase.threads != ir::kTileThreads || phase.cluster != 1)
    throw UnsupportedKernel("a product of tiles in a kernel of another form");
  const std::optional<TileShape> shape = tile_shape(w.kernel, *products[0]);
  if (!shape || !in_slots(w, products[0]->sums)) throw UnsupportedKernel("sums that are not one tile of a thread");
  std::vector<std::pair<ir::BufferId, int64_t>> offsets;
  const int64_t own = plan_buffers(w, offsets);
  const ir::TileMemory plan =
      ir::plan_tile_memory(shape->rows, shape->columns, own, w.ir.target.shared_bytes_per_block);
  if (!plan.fits()) throw UnsupportedKernel("a tile whose factors do not fit into shared memory");
  w.dynamic_shared = plan.bytes;

  // What all warpgroups know.
  Tiles tiles{*products[0], {*shape, plan.stages}};
  llvm::GlobalVariable* const memory = dynamic_shared_array(w, 1024);
  const auto value = [&](const IndexExpr& e) {
    return b.CreateTrunc(w.index.value(w.index.resolve(e)), b.getInt32Ty());
  };
  tiles.memory = b.CreatePtrToInt(memory, b.getInt32Ty());
  Value* const thread = b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {}, {});
  tiles.group = b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_idx_i32, {},
                                  {word(w, -1), b.CreateLShr(thread, 7), word(w, 0), word(w, 31)});
  for (const auto& [id, offset] : offsets) {
    Value* const at = b.CreateAdd(b.CreateMul(tiles.group, word(w, own)), word(w, plan.buffers + offset));
    w.bases[id] = b.CreateGEP(b.getInt8Ty(), memory, at);
  }
  tiles.terms = value(products[0]->terms);
  tiles.chunks = b.CreateUDiv(b.CreateAdd(tiles.terms, word(w, ir::kTileStageTerms - 1)), word(w, ir::kTileStageTerms));
  // The second group begins behind the stages of the first one's tile; what fills begins with all stages empty.
  Value* const skipped = b.CreateSelect(b.CreateICmpEQ(tiles.group, word(w, 1)), tiles.chunks, word(w, 0));
  Value* const rounds = b.CreateAnd(b.CreateUDiv(skipped, word(w, plan.stages)), 1);
  tiles.stage = b.CreateURem(skipped, word(w, plan.stages));
  Value* const fills = b.CreateICmpEQ(tiles.group, word(w, kWarpgroups - 1));
  tiles.parity = b.CreateSelect(fills, word(w, 1), rounds);
  Value* const all = value(count_blocks(phase));
  tiles.has_buffers = !offsets.empty();
  b.SetInsertPoint(body);
  call_asm(w, b.getVoidTy(), open_tile_barriers(tiles.layout), {tiles.memory});
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
  branch(
      w.ir, fills, [&]() -> Value* { return write_filling(w, phase, tiles, all), nullptr; },
      [&]() -> Value* { return write_multiplying(w, phase, tiles, all), nullptr; });
  w.multiply_tile = nullptr, w.sync_group = nullptr;
  if (!w.shared_order.empty()) throw UnsupportedKernel("a product of tiles with other shared memory");
}

}  // namespace fusec::codegen::nvptx

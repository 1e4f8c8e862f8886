// SPDX-License-Identifier: Apache-2.0
// Writes block loops as threads of a thread block in LLVM IR, with barriers and warp masks. Tracks whether control flow
// is uniform and rejects barriers where it is not.

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>

#include "codegen/llvm/nvptx/writer.h"

namespace fusec::codegen::nvptx {
namespace {

using llvm::Value;

Value* at_entry(GpuWriter& w, const std::function<Value*()>& make) {
  llvm::IRBuilder<>::InsertPointGuard guard(w.ir.b);
  w.ir.b.SetInsertPoint(w.phase_function.entry->getTerminator());
  return make();
}

ThreadGroupVars inside(GpuWriter& w, int64_t total, int64_t inner, bool collective) {
  auto& b = w.ir.b;
  ThreadGroupVars out{split(w.thread_group, total, inner), nullptr, w.thread_group.mask};
  if (collective && splits_warps(w.thread_group, total)) {
    if (w.thread_group.mask == nullptr) throw UnsupportedKernel("not all threads of the warp come here together");
    Value* some = b.CreateICmpULT(w.thread_group.thread, b.getInt32(static_cast<uint32_t>(total)));
    out.mask = b.CreateIntrinsic(llvm::Intrinsic::nvvm_vote_ballot_sync, {}, {w.thread_group.mask, some});
  }
  out.thread = inner == 1 ? b.getInt32(0) : thread_part(w, w.thread_group.thread, 1, inner);
  return out;
}

}  // namespace

int64_t constant_extent(GpuWriter& w, const ir::LoopHead& loop) {
  const IndexExpr extent = w.index.resolve(loop.extent);
  if (extent.is_const()) return std::max<int64_t>(0, extent.value());
  throw UnsupportedKernel("block loop '" + name_of(w.kernel, loop.var) + "' has the extent " +
                          named(w.kernel, loop.extent).str() + ", which is no constant");
}

int64_t count_threads(GpuWriter& w, const ir::Stmt& stmt) {
  return codegen::count_threads(stmt, [&](const ir::LoopHead& loop) { return constant_extent(w, loop); });
}

Value* thread_part(GpuWriter& w, Value* thread, int64_t stride, int64_t extent) {
  auto& b = w.ir.b;
  Value*& part = w.thread_parts[{thread, stride, extent}];
  if (part) return part;
  return part = at_entry(w, [&] {
           Value* v = stride == 1 ? thread : b.CreateUDiv(thread, b.getInt32(static_cast<uint32_t>(stride)));
           return extent == 0 ? v : b.CreateURem(v, b.getInt32(static_cast<uint32_t>(extent)));
         });
}

// Binds the grid variables, row-major in the block index.
void bind_grid(GpuWriter& w, const std::vector<ir::LoopHead>& grid) {
  auto& b = w.ir.b;
  std::vector<const ir::LoopHead*> varying;
  for (const ir::LoopHead& loop : grid) {
    if (loop.extent.is(1)) {
      w.index.alias(loop.var, IndexExpr(0));
    } else {
      varying.push_back(&loop);
    }
  }
  if (varying.empty()) return;
  Value* block = at_entry(w, [&] { return b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {}, {}); });
  for (std::size_t i = varying.size(); i-- > 0;) {
    const IndexExpr extent = w.index.resolve(varying[i]->extent);
    Value* v = at_entry(w, [&] {
      Value* here = block;
      if (i > 0) {
        Value* by = b.CreateTrunc(w.index.value(extent), b.getInt32Ty());
        here = b.CreateURem(block, by);
        block = b.CreateUDiv(block, by);
      }
      return b.CreateZExt(here, w.index.type());
    });
    w.index.bind_at_entry(varying[i]->var, v, {IndexExpr(0), extent - 1});
  }
}

// Binds the loop variables, innermost first.
void bind_threads(GpuWriter& w, const std::vector<ir::LoopHead>& loops, int64_t inner) {
  int64_t stride = inner;
  for (std::size_t i = loops.size(); i-- > 0;) {
    const int64_t extent = constant_extent(w, loops[i]);
    if (extent == 1) {
      w.index.alias(loops[i].var, IndexExpr(0));
      continue;
    }
    const bool outermost = std::all_of(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(i),
                                       [&](const ir::LoopHead& loop) { return constant_extent(w, loop) == 1; });
    Value* part = thread_part(w, w.thread_group.thread, stride, outermost ? 0 : extent);
    Value* v = at_entry(w, [&] { return w.ir.b.CreateZExt(part, w.index.type()); });
    w.index.bind_at_entry(loops[i].var, v, {IndexExpr(0), IndexExpr(extent - 1)});
    stride *= extent;
  }
}

void for_threads(GpuWriter& w, int64_t count, const std::function<void()>& body) {
  if (count >= w.thread_group.size) return body();
  Value* some = w.ir.b.CreateICmpULT(w.thread_group.thread, w.ir.b.getInt32(static_cast<uint32_t>(count)));
  branch(
      w.ir, some, [&]() -> Value* { return body(), nullptr; }, [] { return nullptr; });
}

void GpuWriter::write_parallel(const ir::Loop& loop) {
  if (loop.head.tag == ir::LoopTag::grid) throw UnsupportedKernel("a grid loop must be outermost and perfectly nested");
  if (loop.head.tag == ir::LoopTag::cluster) throw UnsupportedKernel("clusters are not written");
  int64_t inner = 1;
  for (const ir::Stmt& stmt : loop.body) inner = std::max(inner, count_threads(*this, stmt));
  const int64_t total = inner * constant_extent(*this, loop.head);
  if (total == 0) return;
  const ThreadGroupVars outer = thread_group;
  const auto variables = block_variables;
  const ThreadGroupVars own = inside(*this, total, inner, is_collective(loop.body));
  for_threads(*this, total, [&] {
    bind_threads(*this, {loop.head}, inner);
    thread_group = own;
    block_variables.insert(loop.head.var);
    write_block(*this, loop.body);
  });
  index.unbind(loop.head.var);
  block_variables = variables;
  thread_group = outer;
}

void GpuWriter::in_loop(const IndexExpr& extent, const std::function<void()>& body) {
  const ThreadGroupVars outer = thread_group;
  std::set<ir::SymbolId> symbols;
  extent.collect_symbols(symbols);
  const bool varies =
      std::any_of(symbols.begin(), symbols.end(), [&](const auto& s) { return block_variables.contains(s); });
  const bool uses_data = index.is_floating(extent);
  thread_group.in_loop = true;
  if (varies || uses_data) thread_group.uniform = false;
  if (uses_data || (varies && (thread_group.alignment % 32 != 0 || thread_group.size % 32 != 0)))
    thread_group.mask = nullptr;
  body();
  thread_group = outer;
}

void write_block_barrier(GpuWriter& w) {
  if (!w.thread_group.uniform) throw UnsupportedKernel("it needs a barrier where not all threads of the block come");
  w.ir.b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
}

void GpuWriter::write_sync(const ir::Sync& sync) {
  if (sync.scope == ir::SyncScope::block) return write_block_barrier(*this);
  if (thread_group.mask == nullptr) throw UnsupportedKernel("not all threads of the warp come here together");
  ir.b.CreateIntrinsic(llvm::Intrinsic::nvvm_bar_warp_sync, {}, {thread_group.mask});
}

Value* GpuWriter::may_store(ir::BufferId id) {
  if (kernel.buffers[id].space == ir::Space::reg || thread_group.size == 1) return nullptr;
  return ir.b.CreateICmpEQ(thread_group.thread, ir.b.getInt32(0));
}

}  // namespace fusec::codegen::nvptx

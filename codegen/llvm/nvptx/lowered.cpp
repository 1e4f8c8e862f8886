// SPDX-License-Identifier: Apache-2.0
// Writes the statements that only lowered kernels have as LLVM IR: conditions, shuffles, ballots and barriers. Binds
// the variables of grid loops, and gives blocks their tasks.

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>

#include "codegen/kernel/layout.h"
#include "codegen/llvm/access.h"
#include "codegen/llvm/nvptx/writer.h"

namespace fusec::codegen::nvptx {
namespace {

using llvm::Value;

Value* constant32(GpuWriter& w, uint32_t v) { return w.ir.b.getInt32(v); }

Value* mask_value(GpuWriter& w, const ir::Operand& mask) {
  return mask == ir::kAllThreads ? constant32(w, 0xffffffff) : raw_operand(w, mask);
}

struct WarpShuffle {
  llvm::Intrinsic::ID id;  // of 32-bit words
  Value *mask, *lane;
};

// Shuffles a scalar as 32-bit words.
Value* shuffle_scalar(GpuWriter& w, const WarpShuffle& how, Value* v) {
  auto& b = w.ir.b;
  llvm::Type* type = v->getType();
  const unsigned bits = type->getScalarSizeInBits();
  const auto word = [&](Value* x) -> Value* {
    return b.CreateIntrinsic(how.id, {}, {how.mask, x, how.lane, constant32(w, 31)});
  };
  if (bits < 32) return b.CreateTrunc(word(b.CreateZExt(v, b.getInt32Ty())), type);
  if (bits == 32) return b.CreateBitCast(word(b.CreateBitCast(v, b.getInt32Ty())), type);
  Value* whole = b.CreateBitCast(v, b.getInt64Ty());
  Value* low = b.CreateZExt(word(b.CreateTrunc(whole, b.getInt32Ty())), b.getInt64Ty());
  Value* high = b.CreateZExt(word(b.CreateTrunc(b.CreateLShr(whole, 32), b.getInt32Ty())), b.getInt64Ty());
  return b.CreateBitCast(b.CreateOr(low, b.CreateShl(high, 32)), type);
}

void write_shuffle(GpuWriter& w, const ir::Shuffle& shuffle) {
  auto& b = w.ir.b;
  const bool by_xor = shuffle.kind == ir::ShuffleKind::by_xor;
  const WarpShuffle how{by_xor ? llvm::Intrinsic::nvvm_shfl_sync_bfly_i32 : llvm::Intrinsic::nvvm_shfl_sync_idx_i32,
                        mask_value(w, shuffle.mask),
                        b.CreateTrunc(w.index.value(w.index.resolve(shuffle.lane)), b.getInt32Ty())};
  Value* value = raw_operand(w, shuffle.value);
  const int width = width_of(value);
  if (width == 1) return define(w, shuffle.dst, shuffle_scalar(w, how, value));
  Value* lanes = llvm::PoisonValue::get(value->getType());
  for (int k = 0; k < width; ++k) {
    const auto lane = static_cast<uint64_t>(k);
    lanes = b.CreateInsertElement(lanes, shuffle_scalar(w, how, b.CreateExtractElement(value, lane)), lane);
  }
  define(w, shuffle.dst, lanes);
}

Value* condition(GpuWriter& w, const ir::Guard& guard) {
  Value* holds = guard_mask(w, guard, 1);
  return holds != nullptr ? holds : w.ir.b.getTrue();
}

void write_if(GpuWriter& w, const ir::If& stmt) {
  branch(
      w.ir, condition(w, stmt.condition), [&]() -> Value* { return write_block(w, stmt.body), nullptr; },
      [] { return nullptr; });
}

// The address of among[number]; the last one where the number is not in range.
Value* choose_base(GpuWriter& w, const ir::Choose& choose, Value* number) {
  auto& b = w.ir.b;
  llvm::Function* const function = b.GetInsertBlock()->getParent();
  const auto block = [&] { return llvm::BasicBlock::Create(b.getContext(), "", function); };
  std::vector<Value*> bases;
  for (const ir::BufferId id : choose.among) bases.push_back(get_base_address(w, id));
  llvm::BasicBlock *const last = block(), *const join = block();
  llvm::SwitchInst* const cases = b.CreateSwitch(number, last);
  b.SetInsertPoint(join);
  llvm::PHINode* const base = b.CreatePHI(bases[0]->getType(), static_cast<unsigned>(bases.size()));
  for (std::size_t i = 0; i < bases.size(); ++i) {
    llvm::BasicBlock* const at = i + 1 == bases.size() ? last : block();
    if (at != last) cases->addCase(llvm::ConstantInt::get(w.index.type(), i), at);
    b.SetInsertPoint(at);
    b.CreateBr(join);
    base->addIncoming(bases[i], at);
  }
  b.SetInsertPoint(join);
  return base;
}

void write_choose(GpuWriter& w, const ir::Choose& choose) {
  auto& b = w.ir.b;
  Value* const number = w.index.value(w.index.resolve(choose.number));
  const auto body = [&]() -> Value* {
    Value* const base = choose_base(w, choose, number);
    llvm::BasicBlock* const head = b.GetInsertBlock();
    llvm::BasicBlock* const inside = llvm::BasicBlock::Create(b.getContext(), "", head->getParent());
    b.CreateBr(inside);
    b.SetInsertPoint(inside);
    w.index.push(head);
    w.index.bind(choose.head.var, number, {IndexExpr(0), choose.head.extent - 1});
    w.index.bind_base(base);
    w.bases[choose.buffer] = base;
    write_block(w, choose.body);
    w.index.pop();
    return nullptr;
  };
  Value* const count = llvm::ConstantInt::get(w.index.type(), choose.among.size());
  branch(w.ir, b.CreateICmpULT(number, count), body, [] { return nullptr; });
}

void write_ballot(GpuWriter& w, const ir::Ballot& ballot) {
  define(w, ballot.dst,
         w.ir.b.CreateIntrinsic(llvm::Intrinsic::nvvm_vote_ballot_sync, {},
                                {mask_value(w, ballot.mask), condition(w, ballot.condition)}));
}

// The words of an operand of an mma, two elements each: those of the given rows and, 8 terms further on, of these
// again.
template <class Element>
std::vector<Value*> mma_words(GpuWriter& w, const ir::Mma& mma, ir::BufferId id, const Element& element,
                              const std::vector<int64_t>& rows) {
  auto& b = w.ir.b;
  std::vector<Value*> words;
  for (const int64_t term : {0, 8}) {
    for (const int64_t row : rows) {
      const std::vector<IndexExpr> at = element(mma, floordiv(mma.lane, 4) + row, mod(mma.lane, 4) * 2 + term);
      const Access access = make_access(w, id, at, 0, 1);
      words.push_back(b.CreateAlignedLoad(b.getInt32Ty(), address(w, access), llvm::Align(4)));
    }
  }
  return words;
}

void write_mma(GpuWriter& w, const ir::Mma& mma) {
  auto& b = w.ir.b;
  if (w.ir.target.sm < ir::kFirstMmaSm) throw UnsupportedKernel("no matrix instructions on " + w.ir.target.name);
  std::vector<Value*> args = mma_words(w, mma, mma.a, ir::element_of_a, {0, 8});
  for (Value* word : mma_words(w, mma, mma.b, ir::element_of_b, {0})) args.push_back(word);
  Value* c = raw_operand(w, mma.c);
  for (uint64_t i = 0; i < ir::kMmaResults; ++i) args.push_back(b.CreateExtractElement(c, i));
  std::vector<llvm::Type*> types;
  for (const Value* v : args) types.push_back(v->getType());
  llvm::Type* const f32 = b.getFloatTy();
  auto* const result = llvm::StructType::get(b.getContext(), {f32, f32, f32, f32});
  const std::string dtype = to_string(w.kernel.buffers[mma.a].dtype);
  auto* const instruction =
      llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false),
                           "mma.sync.aligned.m16n8k16.row.col.f32." + dtype + "." + dtype +
                               ".f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};",
                           "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f", /*hasSideEffects=*/true);
  llvm::CallInst* const call = b.CreateCall(instruction, args);
  call->setConvergent();
  Value* lanes = llvm::PoisonValue::get(llvm::FixedVectorType::get(f32, ir::kMmaResults));
  for (unsigned i = 0; i < ir::kMmaResults; ++i)
    lanes = b.CreateInsertElement(lanes, b.CreateExtractValue(call, i), uint64_t{i});
  define(w, mma.dst, lanes);
}

void write_sync(GpuWriter& w, const ir::Sync& sync) {
  auto& b = w.ir.b;
  switch (sync.scope) {
    case ir::SyncScope::warp:
      b.CreateIntrinsic(llvm::Intrinsic::nvvm_bar_warp_sync, {}, {mask_value(w, sync.mask)});
      return;
    case ir::SyncScope::block:
      if (w.sync_group) return w.sync_group();
      b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
      return;
    case ir::SyncScope::copies:
      b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_commit_group, {}, {});
      b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_wait_group, {}, {b.getInt32(static_cast<uint32_t>(sync.left))});
      return;
    case ir::SyncScope::cluster:
    case ir::SyncScope::arrive:
      b.CreateIntrinsic(w.accesses_memory ? llvm::Intrinsic::nvvm_barrier_cluster_arrive_aligned
                                          : llvm::Intrinsic::nvvm_barrier_cluster_arrive_relaxed_aligned,
                        {}, {});  // with something to release, or nothing
      if (sync.scope == ir::SyncScope::arrive) return;
      [[fallthrough]];
    case ir::SyncScope::wait:
      b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cluster_wait_aligned, {}, {});
  }
}

}  // namespace

void GpuWriter::write_lowered(const ir::Stmt& stmt) {
  if (const auto* branch = std::get_if<ir::If>(&stmt.v)) return write_if(*this, *branch);
  if (const auto* choose = std::get_if<ir::Choose>(&stmt.v)) return write_choose(*this, *choose);
  if (const auto* shuffle = std::get_if<ir::Shuffle>(&stmt.v)) return write_shuffle(*this, *shuffle);
  if (const auto* ballot = std::get_if<ir::Ballot>(&stmt.v)) return write_ballot(*this, *ballot);
  if (const auto* mma = std::get_if<ir::Mma>(&stmt.v)) return write_mma(*this, *mma);
  if (std::holds_alternative<ir::TileProduct>(stmt.v)) {
    if (!multiply_tile) throw UnsupportedKernel("a product of tiles inside of a loop");
    return multiply_tile();
  }
  if (const auto* sync = std::get_if<ir::Sync>(&stmt.v)) return write_sync(*this, *sync);
  if (const auto* alloc = std::get_if<ir::Alloc>(&stmt.v)) return open_mailbox(alloc->buffer);
}

void bind_heads(GpuWriter& w, const std::vector<ir::LoopHead>& grid, Value* number, bool at_entry) {
  auto& b = w.ir.b;
  std::vector<const ir::LoopHead*> varying;
  for (const ir::LoopHead& loop : grid) {
    if (loop.extent.is(1)) {
      w.index.alias(loop.var, IndexExpr(0));
    } else {
      varying.push_back(&loop);
    }
  }
  for (std::size_t i = varying.size(); i-- > 0;) {
    const IndexExpr extent = w.index.resolve(varying[i]->extent);
    Value* here = number;
    if (i > 0) {
      Value* by = b.CreateTrunc(w.index.value(extent), b.getInt32Ty());
      here = b.CreateURem(number, by);
      number = b.CreateUDiv(number, by);
    }
    Value* const value = b.CreateZExt(here, w.index.type());
    const ir::IndexRange range = {IndexExpr(0), extent - 1};
    if (at_entry)
      w.index.bind_at_entry(varying[i]->var, value, range);
    else
      w.index.bind(varying[i]->var, value, range);
  }
}

namespace {

// As take_number(), end_task() and await_tasks() of the CUDA prelude. All threads of the block come here.
Value* task_asm(GpuWriter& w, llvm::Type* result, const char* text, const char* constraints,
                const std::vector<Value*>& args) {
  std::vector<llvm::Type*> types;
  for (const Value* v : args) types.push_back(v->getType());
  llvm::CallInst* call =
      w.ir.b.CreateCall(llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), text, constraints,
                                             /*hasSideEffects=*/true),
                        args);
  call->addFnAttr(llvm::Attribute::Convergent);
  return call;
}

Value* take_number(GpuWriter& w, Value* counter) {
  auto& b = w.ir.b;
  return task_asm(w, b.getInt32Ty(),
                  "{\n\t.reg .pred first;\n\t.reg .u32 at, n;\n\tmov.u32 at, %tid.x;\n\t"
                  "setp.eq.u32 first, at, 0;\n\t@first atom.relaxed.gpu.global.add.u32 n, [$1], 1;\n\t@first "
                  "st.shared.u32 [$2], n;\n\t"
                  "bar.sync 0;\n\tld.shared.u32 $0, [$2];\n\t}",
                  "=r,l,l,~{memory}", {counter, w.shared_array("taken", b.getInt32Ty(), 1)});
}

void end_task(GpuWriter& w, Value* ended) {
  task_asm(w, w.ir.b.getVoidTy(),
           "{\n\t.reg .pred first;\n\t.reg .u32 at;\n\tbar.sync 0;\n\tmov.u32 at, %tid.x;\n\t"
           "setp.eq.u32 first, at, 0;\n\t@first red.release.gpu.global.add.u32 [$0], 1;\n\t}",
           "l,~{memory}", {ended});
}

void await_tasks(GpuWriter& w, Value* ended, Value* tasks) {
  task_asm(w, w.ir.b.getVoidTy(),
           "{\n\t.reg .pred past;\n\t.reg .u32 n;\n\tmov.u32 n, %tid.x;\n\tsetp.ne.u32 past, n, 0;\n\t"
           "@past bra DONE;\n\tWAIT:\n\tld.acquire.gpu.global.u32 n, [$0];\n\tsetp.lt.u32 past, n, $1;\n\t@past bra "
           "WAIT;\n\t"
           "DONE:\n\tbar.sync 0;\n\t}",
           "l,r,~{memory}", {ended, tasks});
}

}  // namespace

void write_tasks(GpuWriter& w, const Phase& phase, llvm::BasicBlock* body) {
  auto& b = w.ir.b;
  b.SetInsertPoint(w.phase_function.entry->getTerminator());
  const IndexExpr of_row = w.index.resolve(count_blocks(phase.passes[0]));
  IndexExpr rows = 1;
  for (const ir::LoopHead& head : phase.grid) rows *= w.index.resolve(head.extent);
  const auto word = [&](const IndexExpr& e) {
    return b.CreateTrunc(w.index.value(w.index.resolve(e)), b.getInt32Ty());
  };
  Value *counters = w.buffer(phase.tasks->counters), *tasks = word(of_row), *all = word(of_row * rows);
  Value* n = take_number(w, counters);
  // find_task() of ir/kernel/task_order.h.
  Value* lead = b.CreateAdd(tasks, b.getInt32(static_cast<uint32_t>(phase.tasks->ahead)));
  lead = b.CreateSelect(b.CreateICmpULT(lead, all), lead, all);
  Value *turns = b.CreateSub(all, lead), *at = b.CreateSub(n, lead), *half = b.CreateLShr(at, 1);
  Value *before = b.CreateICmpULT(n, lead), *behind = b.CreateICmpUGE(at, b.CreateShl(turns, 1));
  Value* even = b.CreateICmpEQ(b.CreateAnd(at, 1), b.getInt32(0));
  Value* second = b.CreateAnd(b.CreateNot(before), b.CreateOr(behind, even));
  Value* later = b.CreateSelect(behind, b.CreateSub(at, turns), b.CreateSelect(even, half, b.CreateAdd(lead, half)));
  Value* number = b.CreateSelect(before, n, later);
  Value *row = b.CreateUDiv(number, tasks), *slice = b.CreateURem(number, tasks);
  Value* ended = b.CreateGEP(b.getInt32Ty(), counters, b.CreateZExt(b.CreateAdd(row, b.getInt32(1)), b.getInt64Ty()));
  bind_heads(w, phase.grid, row, true);
  for (const Phase& pass : phase.passes) bind_heads(w, pass.grid, slice, true);
  b.SetInsertPoint(body);
  for (const Phase& pass : phase.passes) {
    const bool is_second = &pass != &phase.passes[0];
    const auto write = [&]() -> Value* {
      bool waits = is_second;
      for (const ir::Stmt* stmt : pass.body) {
        if (waits && touches_scratch(w.kernel, *stmt)) await_tasks(w, ended, tasks), waits = false;
        write_stmt(w, *stmt);
      }
      if (!is_second) end_task(w, ended);
      return nullptr;
    };
    branch(w.ir, is_second ? second : b.CreateNot(second), write, [] { return nullptr; });
  }
}

void bind_grid(GpuWriter& w, const Phase& phase) {
  auto& b = w.ir.b;
  llvm::IRBuilder<>::InsertPointGuard guard(b);
  b.SetInsertPoint(w.phase_function.entry->getTerminator());
  if (std::all_of(phase.grid.begin(), phase.grid.end(), [](const ir::LoopHead& head) { return head.extent.is(1); }))
    return bind_heads(w, phase.grid, nullptr, true);
  Value* block = b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {}, {});
  if (phase.cluster > 1) block = b.CreateUDiv(block, b.getInt32(static_cast<uint32_t>(phase.cluster)));
  bind_heads(w, phase.grid, block, true);
}

}  // namespace fusec::codegen::nvptx

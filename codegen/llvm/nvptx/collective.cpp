// SPDX-License-Identifier: Apache-2.0
// Writes the folds of a reduction over the threads of a thread group as LLVM IR: with shuffles inside warps, through
// shared memory between warps. `plan_thread_combine` has decided which is used, as for CUDA C++.

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <numeric>

#include "codegen/kernel/thread_group.h"
#include "codegen/llvm/nvptx/writer.h"

namespace fusec::codegen::nvptx {
namespace {

using llvm::Value;

void check_warp(const GpuWriter& w) {
  if (w.thread_group.mask == nullptr) throw UnsupportedKernel("not all threads of the warp come here together");
}

Value* constant32(GpuWriter& w, int64_t v) { return w.ir.b.getInt32(static_cast<uint32_t>(v)); }

// Shuffles a scalar as 32-bit words; `id` is the intrinsic for 32-bit words.
Value* shuffle_scalar(GpuWriter& w, llvm::Intrinsic::ID id, Value* v, Value* from) {
  auto& b = w.ir.b;
  llvm::Type* type = v->getType();
  const unsigned bits = type->getScalarSizeInBits();
  const auto word = [&](Value* x) -> Value* {
    return b.CreateIntrinsic(id, {}, {w.thread_group.mask, x, from, constant32(w, 31)});
  };
  if (bits < 32) return b.CreateTrunc(word(b.CreateZExt(v, b.getInt32Ty())), type);
  if (bits == 32) return b.CreateBitCast(word(b.CreateBitCast(v, b.getInt32Ty())), type);
  Value* whole = b.CreateBitCast(v, b.getInt64Ty());
  Value* low = b.CreateZExt(word(b.CreateTrunc(whole, b.getInt32Ty())), b.getInt64Ty());
  Value* high = b.CreateZExt(word(b.CreateTrunc(b.CreateLShr(whole, 32), b.getInt32Ty())), b.getInt64Ty());
  return b.CreateBitCast(b.CreateOr(low, b.CreateShl(high, 32)), type);
}

Parts shuffle(GpuWriter& w, llvm::Intrinsic::ID id, const Parts& parts, Value* from) {
  Parts out;
  for (Value* part : parts) {
    if (width_of(part) == 1) {
      out.push_back(shuffle_scalar(w, id, part, from));
      continue;
    }
    Value* lanes = llvm::PoisonValue::get(part->getType());
    for (int k = 0; k < width_of(part); ++k) {
      const auto lane = static_cast<uint64_t>(k);
      lanes =
          w.ir.b.CreateInsertElement(lanes, shuffle_scalar(w, id, w.ir.b.CreateExtractElement(part, lane), from), lane);
    }
    out.push_back(lanes);
  }
  return out;
}

Parts choose(GpuWriter& w, Value* condition, const Parts& a, const Parts& b) {
  Parts out;
  for (std::size_t p = 0; p < a.size(); ++p) out.push_back(w.ir.b.CreateSelect(condition, a[p], b[p]));
  return out;
}

Value* has_bit(GpuWriter& w, Value* number, int64_t bit) {
  return w.ir.b.CreateICmpNE(w.ir.b.CreateAnd(number, constant32(w, bit)), constant32(w, 0));
}

// The combination of mine and other, with the lower thread's value on the left. `upper`: this thread is not the lower
// one.
Parts exchanged(GpuWriter& w, const CombineOp& op, const Parts& mine, const Parts& other,
                const std::function<Value*()>& upper) {
  if (is_symmetric(op.combiner)) return combine(w.ir, op, mine, other);
  Value* is_upper = upper();
  return combine(w.ir, op, choose(w, is_upper, other, mine), choose(w, is_upper, mine, other));
}

// Exchanges values by XOR of thread indices: from, 2*from, ... below `to`, powers of two.
Parts fold_by_xor(GpuWriter& w, const CombineOp& op, Parts mine, int64_t from, int64_t to) {
  check_warp(w);
  for (int64_t s = from; s < to; s *= 2) {
    const Parts other = shuffle(w, llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, mine, constant32(w, s));
    mine = exchanged(w, op, mine, other, [&] { return has_bit(w, w.thread_index, s); });
  }
  return mine;
}

// For any number of threads in one warp: reads from the first thread of the neighbouring run, where there is one.
Parts fold_by_index(GpuWriter& w, const CombineOp& op, Parts mine, int64_t from, int64_t total) {
  check_warp(w);
  auto& b = w.ir.b;
  Value* t = w.thread_group.thread;
  for (int64_t s = from; s < total; s *= 2) {
    Value* first = b.CreateAnd(b.CreateXor(t, constant32(w, s)), constant32(w, -s));
    Value* source = b.CreateAnd(b.CreateAdd(b.CreateSub(w.thread_index, t), first), constant32(w, 31));
    const Parts other = shuffle(w, llvm::Intrinsic::nvvm_shfl_sync_idx_i32, mine, source);
    const Parts both = exchanged(w, op, mine, other, [&] { return has_bit(w, t, s); });
    mine = choose(w, b.CreateICmpULT(first, constant32(w, total)), both, mine);
  }
  return mine;
}

// Shared arrays of `count` tuples.
class SharedCells {
 public:
  SharedCells(GpuWriter& w, const Accumulators& a, const std::string& use, int64_t count) : w_(w), a_(a) {
    for (std::size_t p = 0; p < a.op().types.size(); ++p) {
      llvm::Type* element = memory_type(w.ir, a.op().types[p]);
      arrays_.push_back(shared_array(w, "w" + a.id() + "_" + use + std::to_string(p), element, count * a.lanes()));
    }
  }

  Parts get(Value* at) const {
    Parts out;
    for (std::size_t p = 0; p < arrays_.size(); ++p) {
      const DType type = a_.op().types[p];
      out.push_back(from_memory(w_.ir, type, w_.load(memory_type(w_.ir, type, a_.lanes()), place(p, at), align(p))));
    }
    return out;
  }
  void set(Value* at, const Parts& value) const {
    for (std::size_t p = 0; p < arrays_.size(); ++p)
      w_.store(to_memory(w_.ir, a_.op().types[p], value[p]), place(p, at), align(p));
  }

 private:
  Value* place(std::size_t p, Value* at) const {
    auto& b = w_.ir.b;
    return b.CreateGEP(memory_type(w_.ir, a_.op().types[p]), arrays_[p], b.CreateMul(at, constant32(w_, a_.lanes())));
  }
  llvm::Align align(std::size_t p) const {
    return llvm::Align(std::gcd(uint64_t{16}, static_cast<uint64_t>(a_.lanes()) * size_of(a_.op().types[p])));
  }

  GpuWriter& w_;
  const Accumulators& a_;
  std::vector<llvm::GlobalVariable*> arrays_;
};

void where_holds(GpuWriter& w, Value* condition, const std::function<void()>& body) {
  branch(
      w.ir, condition, [&]() -> Value* { return body(), nullptr; }, [] { return nullptr; });
}

// Separates what an earlier iteration of a loop reads from what is written next.
void barrier_in_loops(GpuWriter& w) {
  if (w.thread_group.in_loop) write_block_barrier(w);
}

// Folds `runs` runs of `unit` warps each. Every run has one value, and the first warps of the runs are `unit` apart.
void fold_warps(GpuWriter& w, const Accumulators& a, int64_t runs, int64_t unit, int64_t step, const std::string& use) {
  auto& b = w.ir.b;
  const int64_t warps = w.block_warps, entries = (a.count() + step - 1) / step;
  const SharedCells shared(w, a, use, warps * entries);
  Value* warp = thread_part(w, w.thread_index, 32, 0);
  const auto entry = [&](Value* at, int64_t i) { return b.CreateAdd(at, constant32(w, i / step * warps)); };
  barrier_in_loops(w);
  where_holds(w, b.CreateICmpEQ(thread_part(w, w.thread_index, 1, 32), constant32(w, 0)), [&] {
    for (int64_t i = 0; i < a.count(); i += step) shared.set(entry(warp, i), a.get(i));
  });
  write_block_barrier(w);
  Value* base = constant32(w, 0);
  if (w.thread_group.alignment != 0) base = b.CreateSub(warp, thread_part(w, w.thread_group.thread, 32, 0));
  for (int64_t i = 0; i < a.count(); i += step) {
    if (warps_fold_runs(runs, w.block_threads)) {
      Value* mine = b.CreateMul(thread_part(w, w.thread_index, 1, runs), constant32(w, unit));
      a.set(i, fold_by_xor(w, a.op(), shared.get(entry(b.CreateAdd(base, mine), i)), 1, runs));
      continue;
    }
    std::vector<Parts> all;
    for (int64_t k = 0; k < runs; ++k) all.push_back(shared.get(entry(b.CreateAdd(base, constant32(w, k * unit)), i)));
    a.set(i, fold_pairs(w.ir, a.op(), std::move(all)));
  }
}

// Works for any counts: a tree in shared memory.
void fold_in_shared(GpuWriter& w, const Accumulators& a, int64_t stride, int64_t count, int64_t step,
                    const std::string& use) {
  auto& b = w.ir.b;
  const SharedCells shared(w, a, use, w.block_threads);
  Value* run = thread_part(w, w.thread_group.thread, stride, 0);
  for (int64_t i = 0; i < a.count(); i += step) {
    if (w.thread_group.in_loop || a.count() > step) write_block_barrier(w);
    shared.set(w.thread_index, a.get(i));
    write_block_barrier(w);
    for (int64_t s = 1; s < count; s *= 2) {
      Value* first = b.CreateICmpEQ(b.CreateAnd(run, constant32(w, 2 * s - 1)), constant32(w, 0));
      Value* has_other = b.CreateICmpULT(b.CreateAdd(run, constant32(w, s)), constant32(w, count));
      where_holds(w, b.CreateAnd(first, has_other), [&] {
        const Parts other = shared.get(b.CreateAdd(w.thread_index, constant32(w, s * stride)));
        shared.set(w.thread_index, combine(w.ir, a.op(), shared.get(w.thread_index), other));
      });
      write_block_barrier(w);
    }
    a.set(i, shared.get(b.CreateSub(w.thread_index, w.thread_group.thread)));
  }
}

}  // namespace

Accumulators::Accumulators(GpuWriter& w, CombineOp op, int64_t count, int lanes, std::string id)
    : w_(w), op_(std::move(op)), lanes_(lanes), id_(std::move(id)), slots_(static_cast<std::size_t>(count)) {
  for (std::vector<llvm::AllocaInst*>& cell : slots_) {
    for (const DType type : op_.types) cell.push_back(stack_slot(w.ir, raw_type(w.ir, type, lanes)));
    w.promotable.insert(w.promotable.end(), cell.begin(), cell.end());
  }
}

Parts Accumulators::get(int64_t at) const {
  Parts out;
  for (llvm::AllocaInst* slot : slots_[static_cast<std::size_t>(at)])
    out.push_back(w_.ir.b.CreateLoad(slot->getAllocatedType(), slot));
  return out;
}

void Accumulators::set(int64_t at, const Parts& value) const {
  for (std::size_t p = 0; p < value.size(); ++p) w_.ir.b.CreateStore(value[p], slots_[static_cast<std::size_t>(at)][p]);
}

void Accumulators::reset() const {
  const Parts nothing = identity(w_.ir, op_, lanes_);
  for (int64_t i = 0; i < count(); ++i) set(i, nothing);
}

void combine_accumulators(GpuWriter& w, const Accumulators& a, int64_t stride, int64_t count) {
  if (count <= 1) return;
  const int64_t run = stride * count;
  for (int64_t r = 0; r < a.count(); r += run) {
    for (int64_t s = stride; s < run; s *= 2) {
      for (int64_t k = r; k + s < r + run; k += 2 * s) a.set(k, combine(w.ir, a.op(), a.get(k), a.get(k + s)));
    }
  }
}

bool combine_threads(GpuWriter& w, const Accumulators& a, int64_t stride, int64_t count, int64_t step) {
  if (count <= 1) return false;
  const int64_t total = stride * count;
  const std::string use = stride > 1 ? "outer" : "";
  const ThreadCombine fold = plan_thread_combine(w.thread_group, stride, count);
  switch (fold.way) {
    case CombineMethod::by_xor:
      for (int64_t i = 0; i < a.count(); i += step) a.set(i, fold_by_xor(w, a.op(), a.get(i), stride, total));
      return false;
    case CombineMethod::by_index:
      for (int64_t i = 0; i < a.count(); i += step) a.set(i, fold_by_index(w, a.op(), a.get(i), stride, total));
      return false;
    case CombineMethod::by_warps:
      if (stride < 32) {
        for (int64_t i = 0; i < a.count(); i += step) a.set(i, fold_by_xor(w, a.op(), a.get(i), stride, 32));
      }
      fold_warps(w, a, fold.runs, fold.unit, step, use);
      return true;
    case CombineMethod::in_shared:
      fold_in_shared(w, a, stride, count, step, use);
      return true;
  }
  return true;
}

void broadcast(GpuWriter& w, const Accumulators& a) {
  auto& b = w.ir.b;
  if (w.thread_group.size <= 32 && in_one_warp(w.thread_group)) {
    check_warp(w);
    Value* source = b.CreateAnd(b.CreateSub(w.thread_index, w.thread_group.thread), constant32(w, 31));
    return a.set(0, shuffle(w, llvm::Intrinsic::nvvm_shfl_sync_idx_i32, a.get(0), source));
  }
  const SharedCells shared(w, a, "all", w.block_threads / w.thread_group.size + 1);
  Value* first = b.CreateSub(w.thread_index, w.thread_group.thread);
  Value* slot = b.CreateUDiv(first, constant32(w, w.thread_group.size));
  barrier_in_loops(w);
  where_holds(w, b.CreateICmpEQ(w.thread_group.thread, constant32(w, 0)), [&] { shared.set(slot, a.get(0)); });
  write_block_barrier(w);
  a.set(0, shared.get(slot));
}

}  // namespace fusec::codegen::nvptx

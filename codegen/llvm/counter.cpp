// SPDX-License-Identifier: Apache-2.0
// Builds the run-time binary counter of subtrees as LLVM IR. It serves reductions whose element count is unknown to the
// emitter and must combine in the same balanced order as the evaluator.

#include "codegen/llvm/counter.h"

namespace fusec::codegen {

using llvm::Value;

Counter::Counter(Writer& w, const CombineOp& op, int width) : w_(w), op_(op), start_(identity(w.ir, op, width)) {
  for (Value* part : start_) {
    subtrees_.push_back(stack_slot(w.ir, llvm::ArrayType::get(part->getType(), 64)));
    current_.push_back(stack_slot(w.ir, part->getType()));
  }
}

void Counter::add(Value* index, const Parts& element, Value* mask) {
  put(index, combine_masked(w_.ir, op_, start_, element, mask));
}

void Counter::put(Value* index, const Parts& element) {
  auto& b = w_.ir.b;
  store(element);
  llvm::Function* function = w_.phase_function.function;
  const auto block = [&] { return llvm::BasicBlock::Create(b.getContext(), "", function); };
  llvm::BasicBlock *before = b.GetInsertBlock(), *head = block(), *merge = block(), *exit = block();
  b.CreateBr(head);
  b.SetInsertPoint(head);
  llvm::PHINode* level = b.CreatePHI(b.getInt64Ty(), 2);
  level->addIncoming(b.getInt64(0), before);
  b.CreateCondBr(bit(index, level), merge, exit);
  b.SetInsertPoint(merge);
  store(combine(w_.ir, op_, subtree(level), load()));
  level->addIncoming(b.CreateAdd(level, b.getInt64(1)), b.GetInsertBlock());
  b.CreateBr(head);
  b.SetInsertPoint(exit);
  const Parts done = load();
  for (std::size_t p = 0; p < done.size(); ++p) b.CreateStore(done[p], address(p, level));
}

Parts Counter::finish(Value* count) {
  auto& b = w_.ir.b;
  store(start_);
  const auto nothing = []() -> Value* { return nullptr; };
  runtime_loop(w_.ir, b.getInt64(63), [&](Value* level) {
    branch(
        w_.ir, bit(count, level),
        [&]() -> Value* {
          const Parts at = subtree(level);
          Value* below = b.CreateAnd(count, b.CreateSub(b.CreateShl(b.getInt64(1), level), b.getInt64(1)));
          branch(
              w_.ir, b.CreateICmpEQ(below, b.getInt64(0)), [&] { return store(at), nullptr; },
              [&] { return store(combine(w_.ir, op_, at, load())), nullptr; });
          return nullptr;
        },
        nothing);
  });
  return load();
}

Value* Counter::bit(Value* number, Value* level) {
  return w_.ir.b.CreateTrunc(w_.ir.b.CreateLShr(number, level), w_.ir.b.getInt1Ty());
}

Value* Counter::address(std::size_t part, Value* level) {
  return w_.ir.b.CreateGEP(start_[part]->getType(), subtrees_[part], level);
}

Parts Counter::subtree(Value* level) {
  Parts out;
  for (std::size_t p = 0; p < start_.size(); ++p)
    out.push_back(w_.ir.b.CreateLoad(start_[p]->getType(), address(p, level)));
  return out;
}

Parts Counter::load() {
  Parts out;
  for (llvm::AllocaInst* slot : current_) out.push_back(w_.ir.b.CreateLoad(slot->getAllocatedType(), slot));
  return out;
}

void Counter::store(const Parts& parts) {
  for (std::size_t p = 0; p < parts.size(); ++p) w_.ir.b.CreateStore(parts[p], current_[p]);
}

}  // namespace fusec::codegen

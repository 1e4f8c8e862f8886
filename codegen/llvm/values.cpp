// SPDX-License-Identifier: Apache-2.0
// Builds types, constants, branches, run-time loops and small vector operations in LLVM IR; the common vocabulary of
// the host and NVPTX writers.

#include "codegen/llvm/values.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>

#include <numeric>

#include "ir/ops/cast.h"
#include "ir/support/check.h"

namespace fusec::codegen {

using llvm::Value;

int width_of(const Value* value) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return vector ? static_cast<int>(vector->getNumElements()) : 1;
}

llvm::Type* with_width(llvm::Type* scalar, int width) {
  return width == 1 ? scalar : llvm::FixedVectorType::get(scalar, static_cast<unsigned>(width));
}

llvm::Type* retyped(const Value* like, llvm::Type* scalar) { return with_width(scalar, width_of(like)); }

Value* as_bits(Ir& ir, Value* number) {
  return ir.b.CreateBitCast(number, retyped(number, ir.b.getIntNTy(number->getType()->getScalarSizeInBits())));
}

llvm::Type* raw_type(Ir& ir, DType dtype, int width) {
  const auto scalar = [&]() -> llvm::Type* {
    if (dtype == DType::f64) return ir.b.getDoubleTy();
    if (dtype == DType::f32) return ir.b.getFloatTy();
    if (dtype == DType::bool_) return ir.b.getInt1Ty();
    return ir.b.getIntNTy(static_cast<unsigned>(8 * size_of(dtype)));
  };
  return with_width(scalar(), width);
}

llvm::Type* memory_type(Ir& ir, DType dtype, int width) {
  return dtype == DType::bool_ ? with_width(ir.b.getInt8Ty(), width) : raw_type(ir, dtype, width);
}

llvm::Constant* constant(Ir& ir, const ir::Constant& value) {
  llvm::Type* type = raw_type(ir, value.dtype);
  switch (value.dtype) {
    case DType::f64:
      return llvm::ConstantFP::get(type, value.f);
    case DType::f32:
      return llvm::ConstantFP::get(ir.b.getContext(), llvm::APFloat(ir::f32_from_f64(value.f)));
    case DType::f16:
      return llvm::ConstantInt::get(type, ir::f16_from_f64(value.f));
    case DType::bf16:
      return llvm::ConstantInt::get(type, ir::bf16_from_f64(value.f));
    case DType::bool_:
      return llvm::ConstantInt::get(type, value.i != 0);
    default:
      return llvm::ConstantInt::get(type, static_cast<uint64_t>(value.i));
  }
}

Value* splat(Ir& ir, Value* value, int width) {
  const int from = width_of(value);
  if (from == width) return value;
  FUSEC_CHECK(from == 1) << "a value of width " << from << " in a statement of width " << width;
  return ir.b.CreateVectorSplat(static_cast<unsigned>(width), value);
}

llvm::Constant* number(const Value* like, double value) { return llvm::ConstantFP::get(like->getType(), value); }
llvm::Constant* integer(const Value* like, int64_t value) {
  return llvm::ConstantInt::get(like->getType(), static_cast<uint64_t>(value), true);
}

Value* ramp(Ir& ir, Value* start, int64_t step, int width) {
  std::vector<llvm::Constant*> steps;
  for (int k = 0; k < width; ++k) steps.push_back(integer(start, step * k));
  return ir.b.CreateAdd(splat(ir, start, width), llvm::ConstantVector::get(steps));
}

Value* from_memory(Ir& ir, DType dtype, Value* stored) {
  return dtype == DType::bool_ ? ir.b.CreateICmpNE(stored, integer(stored, 0)) : stored;
}

Value* to_memory(Ir& ir, DType dtype, Value* raw) {
  return dtype == DType::bool_ ? ir.b.CreateZExt(raw, retyped(raw, ir.b.getInt8Ty())) : raw;
}

llvm::AllocaInst* stack_slot(Ir& ir, llvm::Type* type) {
  llvm::BasicBlock& entry = ir.b.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<>::InsertPointGuard guard(ir.b);
  ir.b.SetInsertPoint(&entry, entry.begin());
  return ir.b.CreateAlloca(type);
}

void runtime_loop(Ir& ir, Value* count, const std::function<void(Value*)>& body) {
  auto& b = ir.b;
  llvm::Function* function = b.GetInsertBlock()->getParent();
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto* head = llvm::BasicBlock::Create(b.getContext(), "lanes", function);
  b.CreateBr(head);
  b.SetInsertPoint(head);
  llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(b.getInt64(0), before);
  body(i);
  Value* next = b.CreateAdd(i, b.getInt64(1));
  i->addIncoming(next, b.GetInsertBlock());
  auto* exit = llvm::BasicBlock::Create(b.getContext(), "", function);
  b.CreateCondBr(b.CreateICmpSLT(next, count), head, exit);
  b.SetInsertPoint(exit);
}

namespace {

Value* branch(Ir& ir, Value* condition, const std::function<Value*()>& then, const std::function<Value*()>& otherwise,
              llvm::MDNode* weights) {
  auto& b = ir.b;
  llvm::Function* function = b.GetInsertBlock()->getParent();
  const auto block = [&] { return llvm::BasicBlock::Create(b.getContext(), "", function); };
  llvm::BasicBlock *yes = block(), *no = block(), *join = block();
  b.CreateCondBr(condition, yes, no, weights);
  const auto fill = [&](llvm::BasicBlock* at, const std::function<Value*()>& make) {
    b.SetInsertPoint(at);
    Value* v = make();
    llvm::BasicBlock* last = b.GetInsertBlock();
    b.CreateBr(join);
    return std::pair(v, last);
  };
  const auto [yes_value, yes_end] = fill(yes, then);
  const auto [no_value, no_end] = fill(no, otherwise);
  b.SetInsertPoint(join);
  if (!yes_value) return nullptr;
  llvm::PHINode* merged = b.CreatePHI(yes_value->getType(), 2);
  merged->addIncoming(yes_value, yes_end);
  merged->addIncoming(no_value, no_end);
  return merged;
}

}  // namespace

Value* branch(Ir& ir, Value* condition, const std::function<Value*()>& then, const std::function<Value*()>& otherwise) {
  return branch(ir, condition, then, otherwise, nullptr);
}

Value* usually(Ir& ir, Value* condition, const std::function<Value*()>& then,
               const std::function<Value*()>& otherwise) {
  return branch(ir, condition, then, otherwise, llvm::MDBuilder(ir.b.getContext()).createBranchWeights(1000, 1));
}

Value* lanes_from(Ir& ir, Value* v, int from, int count) {
  std::vector<int> lanes(static_cast<size_t>(count));
  std::iota(lanes.begin(), lanes.end(), from);
  return ir.b.CreateShuffleVector(v, lanes);
}

bool has_classes(const Ir& ir, const Value* v) {
  const int width = width_of(v);
  return ir.target.has("avx512dq") && (width == 16 || width == 32 || width == 64);
}

Value* any_of_class(Ir& ir, Value* v, int classes) {
  Value* any = nullptr;
  for (int from = 0; from < width_of(v); from += 16) {
    Value* here = ir.b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_fpclass_ps_512, {},
                                       {lanes_from(ir, v, from, 16), ir.b.getInt32(classes)});
    any = any ? ir.b.CreateOr(any, here) : here;
  }
  return ir.b.CreateOrReduce(any);
}

Value* call_intrinsic(Ir& ir, llvm::Intrinsic::ID id, std::initializer_list<Value*> args) {
  return ir.b.CreateIntrinsic((*args.begin())->getType(), id, llvm::ArrayRef<Value*>(args.begin(), args.size()));
}

}  // namespace fusec::codegen

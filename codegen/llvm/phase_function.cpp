// SPDX-License-Identifier: Apache-2.0
// Builds the skeleton of a host phase function as LLVM IR: its signature and attributes, the loads of its arguments and
// the loop over the grid range that a thread is given.

#include "codegen/llvm/phase_function.h"

#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/artifact/artifact.h"

namespace fusec::codegen {
namespace {

using llvm::Value;

std::string join_features(const Target& target) {
  std::string out;
  for (const std::string& feature : target.features) out += (out.empty() ? "+" : ",+") + feature;
  return out;
}

// args->table[position], or the field itself for position -1. The loads have no side effects, so all of them sit at the
// entry.
Value* argument(PhaseFunction& phase_function, Ir& ir, int field, int64_t position, llvm::Type* type) {
  Value*& slot = phase_function.arguments[{field, position}];
  if (slot) return slot;
  llvm::IRBuilder<>::InsertPointGuard guard(ir.b);
  llvm::Type* pointer = ir.b.getPtrTy();
  Value* table = position < 0 ? nullptr : argument(phase_function, ir, field, -1, pointer);
  ir.b.SetInsertPoint(phase_function.entry->getTerminator());
  Value* at = table ? ir.b.CreateConstInBoundsGEP1_64(type, table, static_cast<uint64_t>(position))
                    : ir.b.CreateConstInBoundsGEP1_64(pointer, phase_function.function->getArg(0),
                                                      static_cast<uint64_t>(field));
  return slot = ir.b.CreateLoad(table ? type : pointer, at);
}

static_assert(sizeof(HostArgs) == 4 * sizeof(void*), "fields of HostArgs are indexed as pointers");
enum Field { kBuffers, kExtents, kExterns, kStatus };

// The grid variables at `linear`, by division from the innermost; the outermost one needs no division.
std::vector<Value*> delinearize(Ir& ir, Value* linear, const std::vector<Value*>& extents) {
  std::vector<Value*> out(extents.size());
  for (std::size_t i = extents.size(); i-- > 1;) {
    out[i] = ir.b.CreateURem(linear, extents[i]);
    linear = ir.b.CreateUDiv(linear, extents[i]);
  }
  out[0] = linear;
  return out;
}

// The next grid position, as a mixed-radix counter, so that the loop contains no division.
std::vector<Value*> advance(Ir& ir, const std::vector<llvm::PHINode*>& at, const std::vector<Value*>& extents) {
  auto& b = ir.b;
  std::vector<Value*> out(at.size());
  Value* carry = b.getInt64(1);
  for (std::size_t i = at.size(); i-- > 0;) {
    out[i] = b.CreateAdd(at[i], carry);
    if (i == 0) break;
    Value* full = b.CreateICmpEQ(out[i], extents[i]);
    out[i] = b.CreateSelect(full, b.getInt64(0), out[i]);
    carry = b.CreateZExt(full, b.getInt64Ty());
  }
  return out;
}

}  // namespace

PhaseFunction open_phase(llvm::Module& module, Ir& ir, const std::string& name) {
  auto& b = ir.b;
  llvm::Type* parameters[] = {b.getPtrTy(), b.getInt64Ty(), b.getInt64Ty(), b.getPtrTy()};
  auto* type = llvm::FunctionType::get(b.getVoidTy(), parameters, false);
  PhaseFunction phase_function;
  phase_function.function = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, module);
  phase_function.function->addFnAttr(llvm::Attribute::NoUnwind);
  phase_function.function->addFnAttr("target-cpu", ir.target.triple_cpu);
  phase_function.function->addFnAttr("target-features", join_features(ir.target));
  phase_function.function->addFnAttr("prefer-vector-width", std::to_string(8 * ir.target.vector_bytes));
  phase_function.function->addFnAttr("no-builtins");
  const char* names[] = {"args", "begin", "end", "local"};
  for (unsigned i = 0; i < 4; ++i) phase_function.function->getArg(i)->setName(names[i]);
  phase_function.entry = llvm::BasicBlock::Create(b.getContext(), "entry", phase_function.function);
  auto* body = llvm::BasicBlock::Create(b.getContext(), "body", phase_function.function);
  b.SetInsertPoint(phase_function.entry);
  b.CreateBr(body);
  b.SetInsertPoint(body);
  return phase_function;
}

Value* buffer_argument(PhaseFunction& phase_function, Ir& ir, int64_t position) {
  return argument(phase_function, ir, kBuffers, position, ir.b.getPtrTy());
}
Value* extent_argument(PhaseFunction& phase_function, Ir& ir, int64_t position) {
  return argument(phase_function, ir, kExtents, position, ir.b.getInt64Ty());
}
Value* extern_argument(PhaseFunction& phase_function, Ir& ir, int64_t position) {
  return argument(phase_function, ir, kExterns, position, ir.b.getPtrTy());
}
Value* status_argument(PhaseFunction& phase_function, Ir& ir) {
  return argument(phase_function, ir, kStatus, -1, ir.b.getPtrTy());
}
Value* local_memory(const PhaseFunction& phase_function) { return phase_function.function->getArg(3); }

void grid_loop(PhaseFunction& phase_function, Ir& ir, Index& index, const ir::Kernel& kernel,
               const std::vector<ir::LoopHead>& grid, const std::function<void()>& body) {
  auto& b = ir.b;
  Value *begin = phase_function.function->getArg(1), *end = phase_function.function->getArg(2);
  const auto block = [&](const char* name) {
    return llvm::BasicBlock::Create(b.getContext(), name, phase_function.function);
  };
  llvm::BasicBlock *init = block("grid.init"), *head = block("grid"), *inside = block("grid.body"),
                   *exit = block("exit");
  b.CreateCondBr(b.CreateICmpSLT(begin, end), init, exit);

  b.SetInsertPoint(init);
  std::vector<const ir::LoopHead*> varying;
  for (const ir::LoopHead& loop : grid) {
    if (!loop.extent.is(1)) varying.push_back(&loop);
  }
  std::vector<Value*> extents;
  for (const ir::LoopHead* loop : varying) extents.push_back(index.value(index.resolve(loop->extent)));
  const std::vector<Value*> start = varying.empty() ? std::vector<Value*>() : delinearize(ir, begin, extents);
  b.CreateBr(head);

  b.SetInsertPoint(head);
  llvm::PHINode* linear = b.CreatePHI(b.getInt64Ty(), 2, "linear");
  linear->addIncoming(begin, init);
  std::vector<llvm::PHINode*> at;
  index.push(head);
  for (const ir::LoopHead& loop : grid) {
    if (loop.extent.is(1)) index.bind(loop.var, 0);
  }
  for (std::size_t i = 0; i < varying.size(); ++i) {
    const std::string name = name_of(kernel, varying[i]->var);
    llvm::PHINode* phi = varying.size() == 1 ? linear : b.CreatePHI(b.getInt64Ty(), 2, name);
    if (phi != linear) phi->addIncoming(start[i], init);
    index.bind(varying[i]->var, phi, {IndexExpr(0), index.resolve(varying[i]->extent) - 1});
    at.push_back(phi);
  }
  b.CreateBr(inside);

  b.SetInsertPoint(inside);
  body();
  index.pop();
  for (const ir::LoopHead& loop : grid) index.unbind(loop.var);
  Value* next = b.CreateAdd(linear, b.getInt64(1));
  if (at.size() > 1) {
    const std::vector<Value*> following = advance(ir, at, extents);
    for (std::size_t i = 0; i < at.size(); ++i) at[i]->addIncoming(following[i], b.GetInsertBlock());
  }
  linear->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, end), head, exit);
  b.SetInsertPoint(exit);
}

void close_phase(Ir& ir, bool fence) {
  if (fence) ir.b.CreateIntrinsic(ir.b.getVoidTy(), llvm::Intrinsic::x86_sse_sfence, {});
  ir.b.CreateRetVoid();
}

}  // namespace fusec::codegen

// SPDX-License-Identifier: Apache-2.0
#include "codegen/llvm/math.h"

#include <vector>

namespace fusec::codegen::math {

// A runtime loop over the lanes keeps the code small; the operands go through the stack.
Value* libm(Ir& ir, const std::string& name, std::initializer_list<Value*> args) {
  auto& b = ir.b;
  Value* first = *args.begin();
  llvm::Type* scalar = first->getType()->getScalarType();
  std::vector<llvm::Type*> types(args.size(), scalar);
  auto* type = llvm::FunctionType::get(scalar, types, false);
  Value* callee = ir.extern_address(scalar->isDoubleTy() ? name : name + "f");
  const int width = width_of(first);
  if (width == 1) return b.CreateCall(type, callee, llvm::ArrayRef<Value*>(args.begin(), args.size()));
  std::vector<Value*> spilled;
  for (Value* arg : args) {
    spilled.push_back(stack_slot(ir, arg->getType()));
    b.CreateStore(arg, spilled.back());
  }
  runtime_loop(ir, b.getInt64(static_cast<uint64_t>(width)), [&](Value* lane) {
    std::vector<Value*> operands;
    for (Value* at : spilled) operands.push_back(b.CreateLoad(scalar, b.CreateGEP(scalar, at, lane)));
    b.CreateStore(b.CreateCall(type, callee, operands), b.CreateGEP(scalar, spilled[0], lane));
  });
  return b.CreateLoad(first->getType(), spilled[0]);
}

Value* exp(Ir& ir, Value* x) { return libm(ir, "exp", {x}); }
Value* expm1(Ir& ir, Value* x) { return libm(ir, "expm1", {x}); }
Value* log(Ir& ir, Value* x) { return libm(ir, "log", {x}); }
Value* log1p(Ir& ir, Value* x) { return libm(ir, "log1p", {x}); }
Value* tanh(Ir& ir, Value* x) { return libm(ir, "tanh", {x}); }
Value* erf(Ir& ir, Value* x) { return libm(ir, "erf", {x}); }
Value* sin(Ir& ir, Value* x) { return libm(ir, "sin", {x}); }
Value* cos(Ir& ir, Value* x) { return libm(ir, "cos", {x}); }

}  // namespace fusec::codegen::math

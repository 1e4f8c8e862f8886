// SPDX-License-Identifier: Apache-2.0
// How dtypes look in LLVM IR, and conversions between them.
//
// A register is held raw: floats as float or double, f16 and bf16 as their bits in i16, integers as iN, bool as i1; a
// width above 1 makes a fixed vector of them. Arithmetic is done on the compute form: float for f16 and bf16, else raw.
// In memory bool is i8, 0 or 1.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "fusec/dtype.h"
#include "fusec/target.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen {

// Thrown inside the writer where a kernel cannot be expressed; emit turns it into compile_failed.
class CompileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Thrown by parts that do not know the statement at hand, which is then named.
class UnsupportedKernel : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Ir;

// What the instructions of a machine decide. One table each: host_machine, nvptx_machine.
struct Machine {
  llvm::Value* (*f32_from_f16)(Ir&, llvm::Value* raw);
  llvm::Value* (*f16_from_f32)(Ir&, llvm::Value*);
  llvm::Value* (*bf16_from_f32)(Ir&, llvm::Value*);
  // A cast that the machine does in a way of its own, or null: the common way is taken.
  llvm::Value* (*convert)(Ir&, DType from, DType to, llvm::Value* compute);
  // The greater or smaller float: NaN wins, -0 < +0.
  llvm::Value* (*extreme)(Ir&, bool is_max, llvm::Value*, llvm::Value*);
  // A function of floats by its name in libm: "tan", of f32 too.
  llvm::Value* (*function)(Ir&, const std::string& name, const std::vector<llvm::Value*>& args);
};

// Where instructions go, and what they may use. Shared by all parts of the writer.
struct Ir {
  llvm::IRBuilder<>& b;
  const Target& target;
  const Machine& machine;
  // The address of a function of HostArgs::externs, as a pointer usable at the current point.
  std::function<llvm::Value*(const std::string& name)> extern_address;
};

int width_of(const llvm::Value* value);
llvm::Type* with_width(llvm::Type* scalar, int width);
llvm::Type* raw_type(Ir& ir, DType dtype, int width = 1);
llvm::Type* memory_type(Ir& ir, DType dtype, int width = 1);
llvm::Constant* constant(Ir& ir, const ir::Constant& value);
llvm::Value* splat(Ir& ir, llvm::Value* value, int width);  // unchanged when it has that width
// The vector start, start + step, ... of `width`.
llvm::Value* ramp(Ir& ir, llvm::Value* start, int64_t step, int width);
// `like`-shaped constants of the scalar type of `like`.
llvm::Constant* number(const llvm::Value* like, double value);
llvm::Constant* integer(const llvm::Value* like, int64_t value);
// Same width, other scalar type.
llvm::Type* retyped(const llvm::Value* like, llvm::Type* scalar);
llvm::Value* as_bits(Ir& ir, llvm::Value* number);  // the integers of its width

llvm::Value* from_memory(Ir& ir, DType dtype, llvm::Value* stored);
llvm::Value* to_memory(Ir& ir, DType dtype, llvm::Value* raw);
llvm::Value* widen(Ir& ir, DType dtype, llvm::Value* raw);       // raw -> compute form
llvm::Value* narrow(Ir& ir, DType dtype, llvm::Value* compute);  // compute form -> raw, rounded to nearest even
// The cast of ir/ops: one rounding, floats to integers truncate and saturate, NaN gives 0; compute form -> raw.
llvm::Value* convert(Ir& ir, DType from, DType to, llvm::Value* compute);

// Stack memory of the function, reserved once at its entry.
llvm::AllocaInst* stack_slot(Ir& ir, llvm::Type* type);
// body(i) for i in 0 .. count-1 at run time; count > 0.
void runtime_loop(Ir& ir, llvm::Value* count, const std::function<void(llvm::Value*)>& body);
// `then` where `condition` holds, else `otherwise`; each yields a value of one type, or null for none.
llvm::Value* branch(Ir& ir, llvm::Value* condition, const std::function<llvm::Value*()>& then,
                    const std::function<llvm::Value*()>& otherwise);
// The same, laid out for a condition that nearly always holds.
llvm::Value* usually(Ir& ir, llvm::Value* condition, const std::function<llvm::Value*()>& then,
                     const std::function<llvm::Value*()>& otherwise);
// Lanes from .. from + count - 1 of a vector.
llvm::Value* lanes_from(Ir& ir, llvm::Value* v, int from, int count);
// Whether a lane of a vector of f32 is of one of the classes, by AVX-512's vfpclassps, where has_classes.
inline constexpr int kZero = 0x06, kDenormal = 0x20, kInfinite = 0x18, kNan = 0x81;  // of either sign
bool has_classes(const Ir& ir, const llvm::Value* v);
llvm::Value* any_of_class(Ir& ir, llvm::Value* v, int classes);
llvm::Value* call_intrinsic(Ir& ir, llvm::Intrinsic::ID id, std::initializer_list<llvm::Value*> args);

}  // namespace fusec::codegen

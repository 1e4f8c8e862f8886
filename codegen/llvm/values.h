// SPDX-License-Identifier: Apache-2.0
// How dtypes are represented in LLVM IR, and conversions between the representations.
//
// Registers hold raw values: floats as float or double, f16 and bf16 as their bits in i16, integers as iN, bool as i1.
// A width above 1 makes a fixed vector of them. Arithmetic uses the compute form: float for f16 and bf16, else the raw
// form. In memory, bool is i8, 0 or 1.
//
// Scalar ops are the `llvm` column of ir/ops/scalar_ops.def as functions: no fast-math flag is ever set, and nothing is
// contracted across ops. Transcendental functions are those of the host, on compute-form floats of any width. Combiners
// take tuples of raw values, with the operations and the order of ir/eval/combine.h. Target hooks are the functions
// that differ between the host and NVPTX.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "fusec/dtype.h"
#include "fusec/target.h"
#include "ir/kernel/kernel.h"
#include "ir/ops/op.h"

namespace fusec::codegen {

// Thrown inside the writer if a kernel cannot be expressed; emit turns it into compile_failed.
class CompileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Thrown by parts that do not know the current statement; the caller adds the statement's text.
class UnsupportedKernel : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Ir;
struct OpArgs;

// The operations whose code depends on the machine. There is one table each: host_hooks, nvptx_hooks.
struct TargetHooks {
  llvm::Value* (*f32_from_f16)(Ir&, llvm::Value* raw);
  llvm::Value* (*f16_from_f32)(Ir&, llvm::Value*);
  llvm::Value* (*bf16_from_f32)(Ir&, llvm::Value*);
  // A cast that the machine does in its own way; null if the common code is to be used.
  llvm::Value* (*convert)(Ir&, DType from, DType to, llvm::Value* compute);
  // The max or min of floats: NaN wins, -0 < +0.
  llvm::Value* (*min_max)(Ir&, bool is_max, llvm::Value*, llvm::Value*);
  // a*b + c, rounded once.
  llvm::Value* (*fma)(Ir&, llvm::Value* a, llvm::Value* b, llvm::Value* c);
  // A function of floats of the machine's math library, by its name for f64: "pow", also for f32.
  llvm::Value* (*library)(Ir&, const std::string& name, const std::vector<llvm::Value*>& args);
  // A row SCALAR_FN of the op table.
  llvm::Value* (*function)(Ir&, ir::ScalarOp op, llvm::Value* x);
  // Rounds a float to the nearest integer and converts that. Null: the two steps one after the other.
  llvm::Value* (*round_cast)(Ir&, DType from, DType to, llvm::Value* v);
  // A row of ir/ops/kernel_ops.def; a CompileError where the machine does not have it.
  llvm::Value* (*kernel_op)(Ir&, ir::ScalarOp op, const OpArgs& args);
};

// The insertion point and its environment, shared by all parts of the writer.
struct Ir {
  llvm::IRBuilder<>& b;
  const Target& target;
  const TargetHooks& hooks;
  // The address of a function in HostArgs::externs, as a pointer that is valid at the current point.
  std::function<llvm::Value*(const std::string& name)> extern_address;
};

int width_of(const llvm::Value* value);
llvm::Type* with_width(llvm::Type* scalar, int width);
llvm::Type* raw_type(Ir& ir, DType dtype, int width = 1);
llvm::Type* memory_type(Ir& ir, DType dtype, int width = 1);
llvm::Constant* constant(Ir& ir, const ir::Constant& value);
llvm::Value* splat(Ir& ir, llvm::Value* value, int width);  // unchanged if it has that width
// The vector start, start + step, ... of `width` lanes.
llvm::Value* ramp(Ir& ir, llvm::Value* start, int64_t step, int width);
// Constants with the type of `like`.
llvm::Constant* number(const llvm::Value* like, double value);
llvm::Constant* integer(const llvm::Value* like, int64_t value);
// The same width with another scalar type.
llvm::Type* retyped(const llvm::Value* like, llvm::Type* scalar);
llvm::Value* as_bits(Ir& ir, llvm::Value* number);  // as integers of its width

llvm::Value* from_memory(Ir& ir, DType dtype, llvm::Value* stored);
llvm::Value* to_memory(Ir& ir, DType dtype, llvm::Value* raw);
llvm::Value* widen(Ir& ir, DType dtype, llvm::Value* raw);       // raw -> compute form
llvm::Value* narrow(Ir& ir, DType dtype, llvm::Value* compute);  // compute form -> raw, rounded to nearest even
// The cast of ir/ops: one rounding; floats to integers truncate and saturate, NaN gives 0. From compute form to raw.
llvm::Value* convert(Ir& ir, DType from, DType to, llvm::Value* compute);

// Stack memory of the function, allocated once at its entry.
llvm::AllocaInst* stack_slot(Ir& ir, llvm::Type* type);
// body(i) for i in 0 .. count-1 at run time; count > 0.
void runtime_loop(Ir& ir, llvm::Value* count, const std::function<void(llvm::Value*)>& body);
// Runs `then` if `condition` holds, else `otherwise`. Both return values of one type, or both return null.
llvm::Value* branch(Ir& ir, llvm::Value* condition, const std::function<llvm::Value*()>& then,
                    const std::function<llvm::Value*()>& otherwise);
// The same, laid out for a condition that almost always holds.
llvm::Value* usually(Ir& ir, llvm::Value* condition, const std::function<llvm::Value*()>& then,
                     const std::function<llvm::Value*()>& otherwise);
// Lanes from .. from + count - 1 of a vector.
llvm::Value* lanes_from(Ir& ir, llvm::Value* v, int from, int count);
// Whether any lane of an f32 vector is in one of the classes, by AVX-512's vfpclassps. Requires has_classes.
inline constexpr int kZero = 0x06, kDenormal = 0x20, kInfinite = 0x18, kNan = 0x81;  // of either sign
bool has_classes(const Ir& ir, const llvm::Value* v);
llvm::Value* any_of_class(Ir& ir, llvm::Value* v, int classes);
llvm::Value* call_intrinsic(Ir& ir, llvm::Intrinsic::ID id, std::initializer_list<llvm::Value*> args);

const TargetHooks& host_hooks();
const TargetHooks& nvptx_hooks();

// Parts of the host's table that other tables use.
namespace host {

llvm::Value* f32_from_f16(Ir& ir, llvm::Value* raw);
llvm::Value* f16_from_f32(Ir& ir, llvm::Value* f);
llvm::Value* bf16_from_f32(Ir& ir, llvm::Value* f);
llvm::Value* min_max(Ir& ir, bool is_max, llvm::Value* x, llvm::Value* y);

}  // namespace host

// Operands in compute form, all of one width. `type` is the dtype of the operands (for where: of the choices).
struct OpArgs {
  DType type;
  llvm::Value *a, *b = nullptr, *c = nullptr;
};

// The result in compute form. Not for cast. Definitions are expanded.
llvm::Value* build_op(Ir& ir, ir::ScalarOp op, const OpArgs& args);
// The last of the steps of a definition or formula, in compute form.
llvm::Value* build_steps(Ir& ir, std::span<const ir::DefNode> steps, OpArgs args);
// The result as a register, rounded to `result`; a cast converts from args.type.
llvm::Value* build_raw(Ir& ir, ir::ScalarOp op, const OpArgs& args, DType result);

// max(x, 0), abs or neg of an f16 or bf16 on its bits, where ir::on_half_bits holds.
llvm::Value* build_on_bits(Ir& ir, ir::ScalarOp op, DType type, llvm::Value* raw);

// Floats: NaN wins, -0 < +0. Integers: smin and the like.
llvm::Value* build_max(Ir& ir, DType type, llvm::Value* a, llvm::Value* b);
llvm::Value* build_min(Ir& ir, DType type, llvm::Value* a, llvm::Value* b);

}  // namespace fusec::codegen

namespace fusec::codegen::math {

// The `host` column of ir/ops/scalar_ops.def: a polynomial for f32 where there is one, else a call of libm.
llvm::Value* function(Ir& ir, ir::ScalarOp op, llvm::Value* x);
// A short form of ir/ops/kernel_ops.def.
llvm::Value* kernel_op(Ir& ir, ir::ScalarOp op, const OpArgs& args);
// Calls the libm function `name` (without the suffix f for f32) lane by lane, through HostArgs::externs.
llvm::Value* libm(Ir& ir, const std::string& name, const std::vector<llvm::Value*>& args);
// a*b + c, rounded once.
llvm::Value* fused(Ir& ir, llvm::Value* a, llvm::Value* b, llvm::Value* c);

}  // namespace fusec::codegen::math

namespace fusec::codegen {

using Parts = std::vector<llvm::Value*>;

struct CombineOp {
  ir::Combiner combiner;
  std::vector<DType> types;  // of the parts
};

Parts identity(Ir& ir, const CombineOp& op, int width);
Parts combine(Ir& ir, const CombineOp& op, const Parts& a, const Parts& b);
// The combination where the mask holds, else a.
Parts combine_masked(Ir& ir, const CombineOp& op, const Parts& a, const Parts& b, llvm::Value* mask);

// Combines neighbours, carrying an odd last one, until one is left.
Parts fold_pairs(Ir& ir, const CombineOp& op, std::vector<Parts> items);
// The same over the lanes of items of equal width, in the order (item, lane); the result has width 1.
Parts fold_lanes(Ir& ir, const CombineOp& op, std::vector<Parts> items);

// Lanes from .. from + count - 1.
llvm::Value* extract_lanes(Ir& ir, llvm::Value* v, int from, int count);

}  // namespace fusec::codegen

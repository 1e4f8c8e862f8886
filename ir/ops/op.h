// SPDX-License-Identifier: Apache-2.0
// The op vocabulary: one enum for scalar ops (rows of scalar_ops.def and kernel_ops.def) and one for tensor ops (rows
// of tensor_ops.def), the expressions in the columns `definition` and `gradient` and the formulas of GPUs as trees, and
// the tables as Markdown, which is docs/ops.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fusec/dtype.h"

namespace fusec::ir {

// Scalar ops work element by element. Primitives have emitter code; definitions are expressions over other rows.
enum class ScalarOp : uint8_t {
#define SCALAR_OP(name, ...) name,
#define SCALAR_FN(name, ...) name,
#define SCALAR_DEF(name, ...) name,
#include "ir/ops/scalar_ops.def"
#define KERNEL_OP(name, ...) name,
#include "ir/ops/kernel_ops.def"
};

// The dtypes that a scalar op accepts, and its result type.
enum class Typing : uint8_t {
  float_,     // floats -> the same float
  num,        // floats and integers -> the same
  signed_,    // floats and signed integers -> the same
  int_,       // integers -> the same
  bool_,      // bool -> bool
  compare,    // two equal numbers -> bool
  equal,      // two of any one type -> bool
  classify,   // float -> bool
  select,     // bool, T, T -> T
  cast,       // any -> the node's result type
  f32_,       // f32 -> f32
  to_bits,    // f32 -> i32
  from_bits,  // i32 -> f32
  to_int,     // float -> the statement's result type, an integer
};

// Properties of a scalar op, beside its typing. They can be joined by `|`.
enum class OpFlag : uint8_t {
  none = 0,
  commutative = 1,      // op(a, b) is op(b, a)
  ieee = 2,             // float results are correctly rounded, hence the same bits on every device
  exact_on_halves = 4,  // of f16 or bf16 operands, the result is a number of that type without rounding
  discontinuous = 8,    // the last bit of an operand may decide the result
  keeps_integers = 16,  // of floats that are integers, the result is an integer
  makes_integers = 32,  // every finite result is an integer
};
constexpr OpFlag operator|(OpFlag a, OpFlag b) {
  return static_cast<OpFlag>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}

struct ScalarOpInfo {
  std::string_view name;
  int arity;
  Typing typing;
  bool is_definition;
  std::string_view definition;  // "a*sigmoid(a)"; empty for primitives
  OpFlag flags;
  std::string_view gradient;  // one expression per operand over a b c y dy, separated by '|'; empty: not differentiable
  double domain_lo, domain_hi;  // the range of test inputs, for every operand
  double ulp;  // largest error allowed in f32, in units in the last place, against the reference in f64
  int cost;    // approximate cycles per 16 f32 in a vector unit; a definition sums its parts
};

const ScalarOpInfo& info(ScalarOp op);
std::span<const ScalarOpInfo> all_scalar_ops();                 // that graphs may have, in enum order
bool is_kernel_op(ScalarOp op);                                 // a row of kernel_ops.def
std::optional<ScalarOp> find_scalar_op(std::string_view name);  // of either table

bool has(ScalarOp op, OpFlag flag);
// Whether `op` accepts operands of `dtype` (for select: the value operands), and the result type in that case.
bool accepts(ScalarOp op, DType dtype);
DType result_type(ScalarOp op, DType operand, DType cast_to);

enum class TensorOp : uint8_t {
#define TENSOR_OP(name, ...) name,
#include "ir/ops/tensor_ops.def"
};

// How the partitioner may treat a tensor op.
enum class OpPattern : uint8_t {
  source,     // input or constant: does no work
  index_map,  // only moves elements: may become index arithmetic of its users
  reduction,  // reduces or scans axes
  anchor,     // compute-heavy: a library step with epilogue slots
  composite,  // decomposed into other rows by a required pass, before partition
  opaque,     // a separate step
};

// What an operand is to the anchor that reads it. Libraries find operands by role.
enum class Role : uint8_t {
  input,   // the image, or the left matrix
  weight,  // the filter, or the right matrix
  bias,    // added before the epilogues
  query,
  key,
  value,
  mask,
  addend,  // of an epilogue that adds or subtracts
  scale,   // of an epilogue that multiplies
  output,
};
std::string_view to_string(Role role);

struct TensorOpInfo {
  std::string_view name;
  int min_inputs, max_inputs;  // max -1: any number
  OpPattern kind;
  std::string_view attributes;  // "perm:ints axis:int", names and kinds, in print order
  std::string_view roles = {};  // of an anchor's inputs, in order: "input weight bias"
};

const TensorOpInfo& info(TensorOp op);
std::span<const TensorOpInfo> all_tensor_ops();
std::optional<TensorOp> find_tensor_op(std::string_view name);
std::vector<Role> roles_of(TensorOp op);  // of an anchor's inputs, with those that may be missing; else empty
bool is_product(TensorOp op);             // an anchor that sums products of its input and a weight: conv, matmul

// An op of either kind, as stored in nodes.
class Op {
 public:
  Op(ScalarOp op) : is_scalar_(true), code_(static_cast<uint8_t>(op)) {}   // NOLINT: implicit by design
  Op(TensorOp op) : is_scalar_(false), code_(static_cast<uint8_t>(op)) {}  // NOLINT
  bool is_scalar() const { return is_scalar_; }
  ScalarOp scalar() const { return static_cast<ScalarOp>(code_); }
  TensorOp tensor() const { return static_cast<TensorOp>(code_); }
  std::string_view name() const { return is_scalar_ ? info(scalar()).name : info(tensor()).name; }
  bool operator==(const Op&) const = default;

 private:
  bool is_scalar_;
  uint8_t code_;
};

inline bool is_kind(const Op& op, OpPattern kind) { return !op.is_scalar() && info(op.tensor()).kind == kind; }

struct DefNode {
  enum class Kind : uint8_t { op, operand, number, step, y, dy };
  Kind kind = Kind::number;
  ScalarOp op = ScalarOp::add;  // for kind op
  int operand = 0;              // for kind operand: 0 is a, 1 is b, 2 is c; for kind step: its number
  double number = 0;
  bool is_bits = false;       // an i32: a result of to_bits, what is computed of it, and numbers beside these
  std::vector<DefNode> args;  // for kind op
};

// FUSEC_CHECK on malformed text: the texts come from the op table.
DefNode parse_definition(std::string_view text);

// The tree of a row that is a definition. Parsed once.
const DefNode& definition(ScalarOp op);

// The steps of a formula; an expression may refer to those before it. The last one is the result.
using Formula = std::vector<DefNode>;
Formula parse_formula(std::string_view text);
// How GPUs compute the function in the compute type, a row of gpu_formulas.def; null if it has none.
const Formula* gpu_formula(ScalarOp op, DType type);

// One expression per operand; nullopt if that operand has no gradient (the condition of `where`). Empty if the op is
// not differentiable.
const std::vector<std::optional<DefNode>>& gradients(ScalarOp op);

// Evaluates in double, with truth values 0 and 1. Rows in the tree are computed by their references.
struct DefInputs {
  double operands[3] = {0, 0, 0};
  double y = 0, dy = 1;
};
double eval_definition(const DefNode& node, const DefInputs& in);

// docs/ops.md: the op tables as Markdown.
std::string ops_markdown();

}  // namespace fusec::ir

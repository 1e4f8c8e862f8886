// SPDX-License-Identifier: Apache-2.0
// Evaluates scalar ops by the reference column of the op table, on doubles, bools and integers of every width. It
// defines the meaning of every scalar op; all emitters are tested against it.

#include "ir/ops/reference.h"

#include "ir/support/check.h"

namespace fusec::ir {
namespace {

// Whether a row with this typing is defined for values of type R.
template <class R>
constexpr bool has_reference(Typing typing) {
  constexpr bool is_double = std::is_same_v<R, double>, is_bool = std::is_same_v<R, bool>;
  switch (typing) {
    case Typing::float_:
    case Typing::classify:
    case Typing::f32_:
    case Typing::to_bits:
    case Typing::from_bits:
    case Typing::to_int:
      return is_double;
    case Typing::num:
    case Typing::signed_:
    case Typing::compare:
      return !is_bool;
    case Typing::int_:
      return !is_double && !is_bool;
    case Typing::bool_:
      return is_bool || is_double;  // double: conditions inside definitions
    case Typing::equal:
    case Typing::select:
    case Typing::cast:
      return true;
  }
  return false;
}

template <class R>
R evaluate_reference(ScalarOp op, [[maybe_unused]] R a, [[maybe_unused]] R b, [[maybe_unused]] R c) {
  switch (op) {
#define REFERENCE(name, typing, reference)            \
  case ScalarOp::name:                                \
    if constexpr (has_reference<R>(Typing::typing)) { \
      return static_cast<R>(reference);               \
    } else {                                          \
      break;                                          \
    }
#define SCALAR_OP(name, arity, typing, reference, ...) REFERENCE(name, typing, reference)
#define SCALAR_FN(name, reference, ...) REFERENCE(name, float_, reference)
#define SCALAR_DEF(name, arity, typing, definition, reference, ...) REFERENCE(name, typing, reference)
#include "ir/ops/scalar_ops.def"
#define KERNEL_OP(name, arity, typing, reference, ...) REFERENCE(name, typing, reference)
#include "ir/ops/kernel_ops.def"
#undef REFERENCE
  }
  FUSEC_CHECK(false) << info(op).name << " has no reference for this type";
  return R();
}

template <class T>
int64_t in_width(ScalarOp op, int64_t a, int64_t b, int64_t c) {
  using R = ref::Wrapping<T>;
  return static_cast<int64_t>(evaluate_reference<R>(op, R(a), R(b), R(c)).v);
}

}  // namespace

double eval_scalar(ScalarOp op, double a, double b, double c) { return evaluate_reference<double>(op, a, b, c); }

bool eval_scalar(ScalarOp op, bool a, bool b, bool c) { return evaluate_reference<bool>(op, a, b, c); }

int64_t eval_scalar(ScalarOp op, DType dtype, int64_t a, int64_t b, int64_t c) {
  switch (dtype) {
    case DType::i8:
      return in_width<int8_t>(op, a, b, c);
    case DType::i16:
      return in_width<int16_t>(op, a, b, c);
    case DType::i32:
      return in_width<int32_t>(op, a, b, c);
    case DType::i64:
      return in_width<int64_t>(op, a, b, c);
    case DType::u8:
      return in_width<uint8_t>(op, a, b, c);
    case DType::u16:
      return in_width<uint16_t>(op, a, b, c);
    case DType::u32:
      return in_width<uint32_t>(op, a, b, c);
    case DType::u64:
      return in_width<uint64_t>(op, a, b, c);
    default:
      break;
  }
  FUSEC_CHECK(false) << to_string(dtype) << " is not an integer type";
  return 0;
}

}  // namespace fusec::ir

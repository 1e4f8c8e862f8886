// SPDX-License-Identifier: Apache-2.0
// The scalar op and the identities of each combiner, for lowering, the evaluator and all writers. Nothing here may
// depend on a target, because every target must give the same bits.

#include "ir/kernel/combiner.h"

#include <limits>

#include "ir/support/check.h"

namespace fusec::ir {
namespace {

Constant small_number(DType type, int value) {
  return is_float(type) ? Constant{type, static_cast<double>(value), 0} : Constant{type, 0, value};
}

Constant integer_bound(DType type, bool greatest) {
  if (type == DType::bool_) return {type, 0, greatest};
  const int bits = static_cast<int>(8 * size_of(type));
  if (is_unsigned_int(type)) return {type, 0, greatest ? static_cast<int64_t>(~uint64_t{0} >> (64 - bits)) : 0};
  const auto top = static_cast<int64_t>(~uint64_t{0} >> (65 - bits));
  return {type, 0, greatest ? top : -top - 1};
}

// The lowest or the greatest value of a type.
Constant bound(DType type, bool greatest) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  return is_float(type) ? Constant{type, greatest ? kInf : -kInf, 0} : integer_bound(type, greatest);
}

}  // namespace

ScalarOp combining_op(Combiner combiner) {
  switch (combiner) {
    case Combiner::add:
      return ScalarOp::add;
    case Combiner::mul:
      return ScalarOp::mul;
    case Combiner::max:
      return ScalarOp::max;
    case Combiner::min:
      return ScalarOp::min;
    case Combiner::and_:
      return ScalarOp::and_;
    case Combiner::or_:
      return ScalarOp::or_;
    case Combiner::argmax:
    case Combiner::argmin:
    case Combiner::argmax_last:
    case Combiner::argmin_last:
    case Combiner::welford:
    case Combiner::max_sum:
      break;
  }
  FUSEC_CHECK(false) << to_string(combiner) << " combines tuples";
  return ScalarOp::add;
}

std::vector<Constant> identity_constants(Combiner combiner, std::span<const DType> types) {
  const DType t = types[0];
  switch (combiner) {
    case Combiner::add:
    case Combiner::or_:
      return {small_number(t, 0)};
    case Combiner::mul:
    case Combiner::and_:
      return {small_number(t, 1)};
    case Combiner::max:
      return {bound(t, false)};
    case Combiner::min:
      return {bound(t, true)};
    case Combiner::argmax:
      return {bound(t, false), bound(types[1], true)};
    case Combiner::argmin:
      return {bound(t, true), bound(types[1], true)};
    case Combiner::argmax_last:
      return {bound(t, false), bound(types[1], false)};
    case Combiner::argmin_last:
      return {bound(t, true), bound(types[1], false)};
    case Combiner::max_sum:
      return {bound(t, false), small_number(types[1], 0)};
    case Combiner::welford:
      return {small_number(t, 0), small_number(types[1], 0), small_number(types[2], 0)};
  }
  return {};
}

bool is_order_free(Combiner combiner, DType dtype) {
  switch (combiner) {
    case Combiner::add:
    case Combiner::mul:
      return !is_float(dtype);
    case Combiner::welford:
    case Combiner::max_sum:
      return false;
    default:
      return true;
  }
}

bool is_symmetric(Combiner combiner) { return combiner != Combiner::welford; }

bool identity_changes(Combiner combiner, DType dtype) {
  return is_float(dtype) && (combiner == Combiner::add || combiner == Combiner::max_sum);
}

}  // namespace fusec::ir

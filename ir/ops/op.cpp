// SPDX-License-Identifier: Apache-2.0
#include "ir/ops/op.h"

#include <array>
#include <map>

namespace fusec::ir {
namespace {

constexpr ScalarOpInfo kScalarOps[] = {
#define SCALAR_OP(name, arity, typing, reference, llvm, gradient, lo, hi, ulp, cost) \
  {#name, arity, Typing::typing, false, "", gradient, lo, hi, ulp, cost},
#define SCALAR_DEF(name, arity, typing, definition, reference, gradient, lo, hi, ulp) \
  {#name, arity, Typing::typing, true, definition, gradient, lo, hi, ulp, 0},
#include "ir/ops/scalar_ops.def"
};

constexpr TensorOpInfo kTensorOps[] = {
#define TENSOR_OP(name, min_inputs, max_inputs, kind, attributes) \
  {#name, min_inputs, max_inputs, RegionKind::kind, attributes},
#include "ir/ops/tensor_ops.def"
};

template <class Op, class Info>
std::map<std::string_view, Op> index_names(std::span<const Info> rows) {
  std::map<std::string_view, Op> index;
  for (std::size_t i = 0; i < rows.size(); ++i) index.emplace(rows[i].name, static_cast<Op>(i));
  return index;
}

template <class Op>
std::optional<Op> find(const std::map<std::string_view, Op>& index, std::string_view name) {
  const auto it = index.find(name);
  if (it == index.end()) return std::nullopt;
  return it->second;
}

}  // namespace

const ScalarOpInfo& info(ScalarOp op) { return kScalarOps[static_cast<std::size_t>(op)]; }
std::span<const ScalarOpInfo> all_scalar_ops() { return kScalarOps; }

std::optional<ScalarOp> find_scalar_op(std::string_view name) {
  static const auto index = index_names<ScalarOp>(all_scalar_ops());
  return find(index, name);
}

bool accepts(ScalarOp op, DType dtype) {
  switch (info(op).typing) {
    case Typing::float_:
    case Typing::classify:
      return is_float(dtype);
    case Typing::num:
    case Typing::compare:
      return is_float(dtype) || is_int(dtype);
    case Typing::signed_:
      return is_float(dtype) || is_signed_int(dtype);
    case Typing::int_:
      return is_int(dtype);
    case Typing::bool_:
      return dtype == DType::bool_;
    case Typing::equal:
    case Typing::select:
    case Typing::cast:
      return true;
  }
  return false;
}

DType result_type(ScalarOp op, DType operand, DType cast_to) {
  switch (info(op).typing) {
    case Typing::compare:
    case Typing::equal:
    case Typing::classify:
    case Typing::bool_:
      return DType::bool_;
    case Typing::cast:
      return cast_to;
    default:
      return operand;
  }
}

const TensorOpInfo& info(TensorOp op) { return kTensorOps[static_cast<std::size_t>(op)]; }
std::span<const TensorOpInfo> all_tensor_ops() { return kTensorOps; }

std::optional<TensorOp> find_tensor_op(std::string_view name) {
  static const auto index = index_names<TensorOp>(all_tensor_ops());
  return find(index, name);
}

}  // namespace fusec::ir

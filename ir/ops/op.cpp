// SPDX-License-Identifier: Apache-2.0
// Expands scalar_ops.def, kernel_ops.def and tensor_ops.def into the op tables, with lookup by name and typing. The
// cost of a definition is the sum of the rows it names, computed at compile time.

#include "ir/ops/op.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

namespace fusec::ir {
namespace {

using enum OpFlag;

constexpr ScalarOpInfo kScalarRows[] = {
#define SCALAR_OP(name, arity, typing, reference, cuda, llvm, flags, gradient, lo, hi, ulp, cost) \
  {#name, arity, Typing::typing, false, "", flags, gradient, lo, hi, ulp, cost},
#define SCALAR_FN(name, reference, cuda, host, gradient, lo, hi, ulp, cost) \
  {#name, 1, Typing::float_, false, "", none, gradient, lo, hi, ulp, cost},
#define SCALAR_DEF(name, arity, typing, definition, reference, flags, gradient, lo, hi, ulp) \
  {#name, arity, Typing::typing, true, definition, flags, gradient, lo, hi, ulp, 0},
#include "ir/ops/scalar_ops.def"
#define KERNEL_OP(name, arity, typing, reference, cuda, nvptx, ulp, cost) \
  {#name, arity, Typing::typing, false, "", none, "", 0, 0, ulp, cost},
#include "ir/ops/kernel_ops.def"
};
constexpr std::size_t kScalarCount = std::size(kScalarRows);
constexpr std::size_t kKernelOps = 0
#define KERNEL_OP(...) +1
#include "ir/ops/kernel_ops.def"
    ;
using ScalarTable = std::array<ScalarOpInfo, kScalarCount>;

constexpr bool is_name_char(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

constexpr int find_cost(const ScalarTable& rows, std::string_view name) {
  for (const ScalarOpInfo& row : rows) {
    if (row.name == name) return row.cost;
  }
  return 0;  // an operand or a number
}

// The sum over the rows that a definition's text names, including operators. These rows precede the definition in the
// table.
constexpr int definition_cost(const ScalarTable& rows, std::string_view text) {
  int cost = 0;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && is_name_char(text[end])) ++end;
    if (end > i) cost += find_cost(rows, text.substr(i, end - i));
    if (end == i && text[i] == '+') cost += find_cost(rows, "add");
    if (end == i && text[i] == '-') cost += find_cost(rows, "sub");
    if (end == i && text[i] == '*') cost += find_cost(rows, "mul");
    if (end == i && text[i] == '/') cost += find_cost(rows, "div");
    i = end > i ? end : i + 1;
  }
  return cost;
}

constexpr ScalarTable scalar_table() {
  ScalarTable rows = {};
  for (std::size_t i = 0; i < kScalarCount; ++i) rows[i] = kScalarRows[i];
  for (ScalarOpInfo& row : rows) {
    if (row.is_definition) row.cost = definition_cost(rows, row.definition);
  }
  return rows;
}

constexpr ScalarTable kScalarOps = scalar_table();

constexpr TensorOpInfo kTensorOps[] = {
#define TENSOR_OP(name, min_inputs, max_inputs, kind, attributes) \
  {#name, min_inputs, max_inputs, OpPattern::kind, attributes},
#define ANCHOR_OP(name, min_inputs, max_inputs, roles, attributes) \
  {#name, min_inputs, max_inputs, OpPattern::anchor, attributes, roles},
#include "ir/ops/tensor_ops.def"
};

constexpr std::string_view kRoles[] = {"input", "weight", "bias",   "query", "key",
                                       "value", "mask",   "addend", "scale", "output"};

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
std::span<const ScalarOpInfo> all_scalar_ops() { return std::span(kScalarOps).first(kScalarCount - kKernelOps); }
bool is_kernel_op(ScalarOp op) { return static_cast<std::size_t>(op) >= all_scalar_ops().size(); }

std::optional<ScalarOp> find_scalar_op(std::string_view name) {
  static const auto index = index_names<ScalarOp>(std::span<const ScalarOpInfo>(kScalarOps));
  return find(index, name);
}

bool has(ScalarOp op, OpFlag flag) { return (static_cast<uint8_t>(info(op).flags) & static_cast<uint8_t>(flag)) != 0; }

bool accepts(ScalarOp op, DType dtype) {
  switch (info(op).typing) {
    case Typing::float_:
    case Typing::classify:
    case Typing::to_int:
      return is_float(dtype);
    case Typing::f32_:
    case Typing::to_bits:
      return dtype == DType::f32;
    case Typing::from_bits:
      return dtype == DType::i32;
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
    case Typing::to_int:
      return cast_to;
    case Typing::to_bits:
      return operand == DType::f64 ? DType::i64 : DType::i32;
    case Typing::from_bits:
      return operand == DType::i64 ? DType::f64 : DType::f32;
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

std::string_view to_string(Role role) { return kRoles[static_cast<std::size_t>(role)]; }

std::vector<Role> roles_of(TensorOp op) {
  std::vector<Role> roles;
  for (std::string_view rest = info(op).roles; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const auto* const at = std::find(std::begin(kRoles), std::end(kRoles), word);
    roles.push_back(static_cast<Role>(at - std::begin(kRoles)));
  }
  return roles;
}

bool is_product(TensorOp op) { return info(op).roles.find("weight") != std::string_view::npos; }

}  // namespace fusec::ir

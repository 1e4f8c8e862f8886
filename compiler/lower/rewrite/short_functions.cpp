// SPDX-License-Identifier: Apache-2.0
#include "compiler/lower/rewrite/short_functions.h"

#include <optional>
#include <set>

#include "compiler/lower/rewrite/kernel_names.h"

namespace fusec::compiler {
namespace {

using ir::ScalarOp;

// The values that nothing reads but what rounds to one type of 16 bits: rounding_of says so of a statement and gives
// the type.
template <class RoundingOf>
Roundings find_rounded(const ir::Kernel& kernel, const RoundingOf& rounding_of) {
  Roundings rounded;
  std::set<RegId> others;
  ir::for_each_stmt(kernel.body, [&](const Stmt& stmt) {
    const auto* let = std::get_if<ir::Let>(&stmt.v);
    const std::optional<DType> type = let != nullptr ? rounding_of(*let) : std::nullopt;
    ir::for_each_operand(stmt, [&](const Operand& o) {
      const auto* r = std::get_if<RegId>(&o);
      if (r != nullptr && (!type || rounded.emplace(*r, *type).first->second != *type)) others.insert(*r);
    });
  });
  for (const RegId r : others) rounded.erase(r);
  return rounded;
}

std::optional<DType> rounding_of_cast(const ir::Kernel& kernel, const ir::Let& let) {
  const DType to = kernel.regs[let.dst].dtype;
  return let.op == ScalarOp::cast && is_16_bit_float(to) ? std::optional(to) : std::nullopt;
}

// The values of find_rounded_values, and the factors of products among them: of a product, the relative error is that
// of its factors.
Roundings find_rounded_factors(const ir::Kernel& kernel, const Roundings& values) {
  Roundings known = values;
  for (std::size_t before = 0; before != known.size();) {
    before = known.size();
    known = find_rounded(kernel, [&](const ir::Let& let) -> std::optional<DType> {
      const auto product = let.op == ScalarOp::mul ? known.find(let.dst) : known.end();
      return product != known.end() ? std::optional(product->second) : rounding_of_cast(kernel, let);
    });
  }
  return known;
}

}  // namespace

Roundings find_rounded_values(const ir::Kernel& kernel) {
  return find_rounded(kernel, [&](const ir::Let& let) { return rounding_of_cast(kernel, let); });
}

void shorten_functions(ir::Kernel& kernel) {
  const Roundings values = find_rounded_values(kernel), factors = find_rounded_factors(kernel, values);
  const auto is_rounded_to = [&](DType type, RegId value) {
    const auto found = values.find(value);
    return found != values.end() && found->second == type;
  };
  ir::for_each_stmt(kernel.body, [&](Stmt& stmt) {
    auto* let = std::get_if<ir::Let>(&stmt.v);
    if (let == nullptr || kernel.regs[let->dst].dtype != DType::f32) return;
    if (let->op == ScalarOp::gelu && is_rounded_to(DType::f16, let->dst)) let->op = ScalarOp::gelu_as_f16;
    if (let->op == ScalarOp::gelu && is_rounded_to(DType::bf16, let->dst)) let->op = ScalarOp::gelu_as_bf16;
    if (let->op == ScalarOp::sigmoid && factors.contains(let->dst)) let->op = ScalarOp::sigmoid_as_16_bits;
  });
}

}  // namespace fusec::compiler

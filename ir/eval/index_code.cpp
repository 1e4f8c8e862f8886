// SPDX-License-Identifier: Apache-2.0
// Compiles and evaluates index expressions for the kernel evaluator, with the same rounding and wrapping as compiled
// code.

#include "ir/eval/index_code.h"

#include <algorithm>

namespace fusec::ir {

IndexCode::IndexCode(const IndexExpr& dim, const std::function<int(SymbolId)>& slot) {
  if (dim.is_const()) constant_ = static_cast<uint64_t>(dim.value());
  for (const IndexExpr::Term& t : dim.terms()) {
    const auto coefficient = static_cast<uint64_t>(t.coefficient);
    if (t.atoms.empty()) {
      constant_ = coefficient;
      continue;
    }
    if (t.atoms.size() == 1 && t.atoms[0].fn == IndexExpr::Fn::symbol) {
      linear_.push_back({coefficient, static_cast<std::size_t>(slot(t.atoms[0].symbol))});
      continue;
    }
    Term term{coefficient, {}};
    for (const IndexExpr::Atom& a : t.atoms) {
      Atom atom;
      atom.fn = a.fn;
      if (a.fn == IndexExpr::Fn::symbol) atom.slot = slot(a.symbol);
      for (const IndexExpr& arg : a.args) atom.args.emplace_back(arg, slot);
      term.atoms.push_back(std::move(atom));
    }
    terms_.push_back(std::move(term));
  }
}

int64_t IndexCode::eval(const std::vector<int64_t>& slots) const {
  uint64_t sum = constant_;
  for (const Linear& t : linear_) sum += t.coefficient * static_cast<uint64_t>(slots[t.slot]);
  for (const Term& t : terms_) {
    uint64_t product = t.coefficient;
    for (const Atom& a : t.atoms) product *= static_cast<uint64_t>(a.eval(slots));
    sum += product;
  }
  return static_cast<int64_t>(sum);
}

int64_t IndexCode::Atom::eval(const std::vector<int64_t>& slots) const {
  if (fn == IndexExpr::Fn::symbol) return slots[static_cast<std::size_t>(slot)];
  const int64_t a = args[0].eval(slots), b = args[1].eval(slots);
  if (fn == IndexExpr::Fn::min) return std::min(a, b);
  if (fn == IndexExpr::Fn::max) return std::max(a, b);
  const int64_t divisor = std::max<int64_t>(b, 1), rest = a % divisor;
  if (fn == IndexExpr::Fn::mod) return rest < 0 ? rest + divisor : rest;
  return rest < 0 ? a / divisor - 1 : a / divisor;
}

}  // namespace fusec::ir

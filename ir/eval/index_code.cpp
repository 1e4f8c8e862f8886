// SPDX-License-Identifier: Apache-2.0
#include "ir/eval/index_code.h"

#include <algorithm>

namespace fusec::ir {

IndexCode::IndexCode(const Dim& dim, const std::function<int(const std::string&)>& slot) {
  for (const Dim::Term& t : dim.terms()) {
    Term term{t.coefficient, {}};
    for (const Dim::Atom& a : t.atoms) {
      Atom atom;
      atom.fn = a.fn;
      if (a.fn == Dim::Fn::symbol) atom.slot = slot(a.name);
      for (const Dim& arg : a.args) atom.args.emplace_back(arg, slot);
      term.atoms.push_back(std::move(atom));
    }
    terms_.push_back(std::move(term));
  }
}

std::optional<int64_t> IndexCode::eval(const std::vector<int64_t>& slots) const {
  uint64_t sum = 0;
  for (const Term& t : terms_) {
    uint64_t product = static_cast<uint64_t>(t.coefficient);
    for (const Atom& a : t.atoms) {
      const auto value = a.eval(slots);
      if (!value) return std::nullopt;
      product *= static_cast<uint64_t>(*value);
    }
    sum += product;
  }
  return static_cast<int64_t>(sum);
}

std::optional<int64_t> IndexCode::Atom::eval(const std::vector<int64_t>& slots) const {
  if (fn == Dim::Fn::symbol) return slots[static_cast<std::size_t>(slot)];
  const auto a = args[0].eval(slots), b = args[1].eval(slots);
  if (!a || !b) return std::nullopt;
  if (fn == Dim::Fn::min) return std::min(*a, *b);
  if (fn == Dim::Fn::max) return std::max(*a, *b);
  if (*b <= 0) return std::nullopt;
  const int64_t rest = *a % *b < 0 ? *a % *b + *b : *a % *b;
  if (fn == Dim::Fn::mod) return rest;
  return (*a % *b < 0) ? *a / *b - 1 : *a / *b;
}

}  // namespace fusec::ir

// SPDX-License-Identifier: Apache-2.0
// The arithmetic that Dim and ir::IndexExpr share, written once over E, which is one of them: checked arithmetic of
// numbers, comparison of terms, and access to terms without a copy. Each file of Dim instantiates its part for both.
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fusec/dim.h"
#include "ir/base/index_expr.h"

namespace fusec {

struct DimAccess {
  template <class E>
  static const std::vector<typename E::Term>* shared(const E& d) {
    return d.terms_.get();
  }
  // `terms` must be canonical: sorted, distinct, without zero coefficients.
  template <class E>
  static E make(std::vector<typename E::Term> terms);
};

namespace base {

using Fn = Dim::Fn;
template <class E>
using Atom = typename E::Atom;
template <class E>
using Term = typename E::Term;
template <class E>
using Atoms = std::vector<Atom<E>>;
template <class E>
using Terms = std::vector<Term<E>>;

// What differs between the two: the symbol of an atom, and the ranges of symbols.
inline const std::string& symbol_of(const Dim::Atom& atom) { return atom.name; }
inline ir::SymbolId symbol_of(const ir::IndexExpr::Atom& atom) { return atom.symbol; }
inline int compare_symbols(const Dim::Atom& a, const Dim::Atom& b) { return a.name.compare(b.name); }
inline int compare_symbols(const ir::IndexExpr::Atom& a, const ir::IndexExpr::Atom& b) {
  const auto order = a.symbol <=> b.symbol;
  return order < 0 ? -1 : order > 0 ? 1 : 0;
}
template <class E>
struct RangesFor;
template <>
struct RangesFor<Dim> {
  using One = DimRange;
  using All = DimRanges;
};
template <>
struct RangesFor<ir::IndexExpr> {
  using One = ir::IndexRange;
  using All = ir::IndexRanges;
};
template <class E>
using Range = typename RangesFor<E>::One;
template <class E>
using Ranges = typename RangesFor<E>::All;

inline int64_t add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) throw DimOverflow();
  return r;
}
inline int64_t sub(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_sub_overflow(a, b, &r)) throw DimOverflow();
  return r;
}
inline int64_t mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) throw DimOverflow();
  return r;
}
// Rounds toward minus infinity. b != 0.
inline int64_t floor_div(int64_t a, int64_t b) {
  if (b == -1) return sub(0, a);
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
inline int64_t floor_mod(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
// The result is at least 0. 2^62 stands for 2^63, which only the smallest integer has as a divisor.
inline int64_t gcd(int64_t a, int64_t b) {
  const auto magnitude = [](int64_t v) {
    return v < 0 ? uint64_t{0} - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
  };
  const uint64_t g = std::gcd(magnitude(a), magnitude(b));
  return g > static_cast<uint64_t>(INT64_MAX) ? int64_t{1} << 62 : static_cast<int64_t>(g);
}

template <class E>
int compare_monomials(const Atoms<E>& a, const Atoms<E>& b);  // lexicographic, a prefix first

template <class A>
int compare_atoms(const A& a, const A& b) {
  if (a.fn != b.fn) return a.fn < b.fn ? -1 : 1;
  if (a.fn == Fn::symbol) return compare_symbols(a, b);
  for (std::size_t i = 0; i < 2; ++i) {
    if (const int order = compare(a.args[i], b.args[i])) return order;
  }
  return 0;
}
template <class A>
bool atom_less(const A& a, const A& b) {
  return compare_atoms(a, b) < 0;
}

// A graded order, in which multiplication preserves the order, as polynomial division requires.
template <class E>
bool graded_less(const Atoms<E>& a, const Atoms<E>& b) {
  return a.size() != b.size() ? a.size() < b.size() : compare_monomials<E>(a, b) < 0;
}

// The terms of an expression without a copy; `d` must outlive it.
template <class E>
class TermView {
 public:
  explicit TermView(const E& d) {
    if (const Terms<E>* shared = DimAccess::shared(d)) {
      span_ = *shared;
    } else if (d.value() != 0) {
      constant_.coefficient = d.value();
      span_ = std::span<const Term<E>>(&constant_, 1);
    }
  }
  TermView(const TermView&) = delete;
  TermView& operator=(const TermView&) = delete;
  auto begin() const { return span_.begin(); }
  auto end() const { return span_.end(); }
  std::size_t size() const { return span_.size(); }
  const Term<E>& operator[](std::size_t i) const { return span_[i]; }

 private:
  Term<E> constant_;
  std::span<const Term<E>> span_;
};

template <class E>
E of_term(Term<E> term) {  // its atoms must be sorted
  if (term.coefficient == 0) return 0;
  Terms<E> terms;
  terms.push_back(std::move(term));
  return DimAccess::make<E>(std::move(terms));
}
template <class E>
E of_atom(Atom<E> atom) {
  Term<E> term{1, {}};
  term.atoms.push_back(std::move(atom));
  return of_term<E>(std::move(term));
}
template <class E>
E apply(Fn fn, const E& a, const E& b);  // calls the public function for fn; not for symbol
template <class E>
const Atom<E>* as_atom(const E& d) {  // if d is a single atom, else null; valid as long as d
  const Terms<E>* terms = DimAccess::shared(d);
  if (terms == nullptr || terms->size() != 1) return nullptr;
  const Term<E>& t = terms->front();
  return t.coefficient == 1 && t.atoms.size() == 1 ? &t.atoms[0] : nullptr;
}
template <class E>
int64_t constant_term(const E& d) {
  const Terms<E>* terms = DimAccess::shared(d);
  if (terms == nullptr) return d.value();
  return terms->front().atoms.empty() ? terms->front().coefficient : 0;
}
template <class E>
std::optional<Atoms<E>> divide(const Atoms<E>& a, const Atoms<E>& b);  // the multiset difference if b divides a

// a = multiple * b + rest. `multiple` takes the terms that b divides; if b is constant, it also takes the part of the
// constant term that b divides. b must be a single term.
template <class E>
struct Split {
  E multiple, rest;
};
template <class E>
Split<E> split_multiples(const E& a, const E& b);

// The greatest product of a constant and symbols that divides every term of a and of b.
template <class E>
Term<E> common_factor(const E& a, const E& b);

}  // namespace base

inline bool operator==(const Dim::Atom& a, const Dim::Atom& b) { return base::compare_atoms(a, b) == 0; }
namespace ir {
inline bool operator==(const IndexExpr::Atom& a, const IndexExpr::Atom& b) { return base::compare_atoms(a, b) == 0; }
}  // namespace ir

}  // namespace fusec

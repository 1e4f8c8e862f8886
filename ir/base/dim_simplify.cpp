// SPDX-License-Identifier: Apache-2.0
// Simplifies Dims and IndexExprs by what the ranges of symbols decide about floordiv, mod, min and max. The result
// equals the input for all values in range; a rewrite that overflows is dropped.

#include <algorithm>

#include "ir/base/dim_range.h"

namespace fusec {
namespace base {
namespace {

constexpr int kMaxRounds = 4;  // two rounds settle every case seen so far

// Symbols alone are as simple as they can be.
template <class E>
bool has_function_in(const Term<E>& t) {
  return std::any_of(t.atoms.begin(), t.atoms.end(), [](const Atom<E>& atom) { return atom.fn != Fn::symbol; });
}
template <class E>
bool has_function(const E& a) {
  const Terms<E>* const terms = DimAccess::shared(a);
  return terms != nullptr && std::any_of(terms->begin(), terms->end(), has_function_in<E>);
}

// The number of nodes in the expression. A rewrite is accepted only if it lowers this number.
template <class E>
int measure_size(const E& a) {
  int n = 0;
  for (const TermView<E> view(a); const Term<E>& t : view) {
    n += t.coefficient == 1 ? 1 : 2;
    for (const Atom<E>& atom : t.atoms) {
      n += atom.fn == Fn::symbol ? 1 : 4;
      for (const E& arg : atom.args) n += measure_size(arg);
    }
  }
  return n;
}

// x = k * multiple + rest, by polynomial division.
template <class E>
Split<E> divide_polynomials(const E& x, const E& k) {
  if (TermView<E>(k).size() == 1) return split_multiples(x, k);
  const auto less = [](const Term<E>& a, const Term<E>& b) { return graded_less<E>(a.atoms, b.atoms); };
  const Terms<E> divisor = k.terms();
  const Term<E>& lead = *std::max_element(divisor.begin(), divisor.end(), less);
  Split<E> s{0, x};
  // Each round takes the greatest term that `lead` divides. The remainder is smaller in the graded order.
  for (bool found = true; found;) {
    found = false;
    Terms<E> terms = s.rest.terms();
    std::sort(terms.begin(), terms.end(), [&](const Term<E>& a, const Term<E>& b) { return less(b, a); });
    for (const Term<E>& t : terms) {
      std::optional<Atoms<E>> atoms = divide<E>(t.atoms, lead.atoms);
      if (!atoms || t.coefficient % lead.coefficient != 0) continue;
      const E q = of_term<E>({t.coefficient / lead.coefficient, std::move(*atoms)});
      s.multiple += q;
      s.rest = s.rest - q * k;
      found = true;
      break;
    }
  }
  return s;
}

template <class E>
void operands(Fn fn, const E& d, std::vector<E>& out) {
  const Atom<E>* atom = as_atom(d);
  if (atom == nullptr || atom->fn != fn) {
    out.push_back(d);
    return;
  }
  for (const E& arg : atom->args) operands(fn, arg, out);
}

}  // namespace

template <class E>
E Simplifier<E>::simplify(const E& a) {
  if (!has_function(a)) return a;
  if (const auto known = simplified_.find(a); known != simplified_.end()) return known->second;
  E current = a;
  try {
    for (int round = 0; round < kMaxRounds; ++round) {
      E next = run(current);
      if (next == current) break;
      current = std::move(next);
    }
  } catch (const DimOverflow&) {
    current = a;
  }
  return simplified_.emplace(a, std::move(current)).first->second;
}

template <class E>
bool Simplifier<E>::nonneg(const E& a) {
  if (a.is_const()) return a.value() >= 0;
  const auto known = nonneg_.find(a);
  return known != nonneg_.end() ? known->second : nonneg_.emplace(a, prover_.nonneg(a)).first->second;
}

template <class E>
E Simplifier<E>::run(const E& a) {
  if (!has_function(a)) return a;
  E sum = 0;
  for (const TermView<E> view(a); const Term<E>& t : view) {
    if (!has_function_in<E>(t)) {
      sum += of_term<E>(t);
      continue;
    }
    E product = t.coefficient;
    for (const Atom<E>& atom : t.atoms) product *= of(atom);
    sum += product;
  }
  return join_splits(std::move(sum));
}

template <class E>
E Simplifier<E>::of(const Atom<E>& atom) {
  if (atom.fn == Fn::symbol) return of_atom<E>(atom);
  const auto known = atoms_.find(atom);
  return known != atoms_.end() ? known->second : atoms_.emplace(atom, of_function(atom)).first->second;
}

template <class E>
E Simplifier<E>::of_function(const Atom<E>& atom) {
  const E x = run(atom.args[0]), y = run(atom.args[1]);
  if (x.is_const() && y.is_const()) return apply(atom.fn, x, y);
  if (atom.fn == Fn::min || atom.fn == Fn::max) return extremum(atom.fn, x, y);
  if (const std::optional<Split<E>> s = divide_in_range(x, y)) return atom.fn == Fn::floordiv ? s->multiple : s->rest;
  if (const std::optional<E> d = divide_common(atom.fn, x, y)) return *d;
  return apply(atom.fn, x, y);
}

// x = k * q + r with a proof of 0 <= r < k.
template <class E>
std::optional<Split<E>> Simplifier<E>::divide_in_range(const E& x, const E& k) {
  Split<E> s = divide_polynomials(x, k);
  if (prover_.within(s.rest, k)) return s;
  // -k <= r < 0 results from expressions such as n*i - 1.
  if (prover_.within(s.rest + k, k)) return Split<E>{s.multiple - 1, s.rest + k};
  if (!k.is_const() || k.value() <= 0) return std::nullopt;
  const std::optional<int64_t> lo = prover_.lower_bound(s.rest), hi = prover_.upper_bound(s.rest);
  if (!lo || !hi || floor_div(*lo, k.value()) != floor_div(*hi, k.value())) return std::nullopt;
  const int64_t q = floor_div(*lo, k.value());
  return Split<E>{s.multiple + q, s.rest - mul(q, k.value())};
}

// floordiv(g*u + v, g*m) = floordiv(u, m) and mod(g*u + v, g*m) = g*mod(u, m) + v for 0 <= v < g
template <class E>
std::optional<E> Simplifier<E>::divide_common(Fn fn, const E& x, const E& k) {
  if (TermView<E>(k).size() != 1) return std::nullopt;
  std::vector<E> tried;
  for (const TermView<E> view(x); const Term<E>& t : view) {
    if (t.atoms.empty()) continue;
    const E g = of_term<E>(common_factor(of_term<E>(t), k));
    if (g.is(1) || std::find(tried.begin(), tried.end(), g) != tried.end()) continue;
    tried.push_back(g);
    const std::optional<E> m = k.exact_div(g);
    const Split<E> s = split_multiples(x, g);
    if (!m || s.rest.is(0) || !prover_.within(s.rest, g)) continue;
    const E inner = run(apply(fn, s.multiple, *m));
    return fn == Fn::floordiv ? inner : g * inner + s.rest;
  }
  return std::nullopt;
}

// Drops operands over which another operand is proven to win.
template <class E>
E Simplifier<E>::extremum(Fn fn, const E& x, const E& y) {
  std::vector<E> all, kept;
  operands(fn, x, all);
  operands(fn, y, all);
  const auto wins = [&](const E& a, const E& b) { return prover_.nonneg(fn == Fn::min ? b - a : a - b); };
  for (const E& d : all) {
    if (std::any_of(kept.begin(), kept.end(), [&](const E& other) { return wins(other, d); })) continue;
    std::erase_if(kept, [&](const E& other) { return wins(d, other); });
    kept.push_back(d);
  }
  E result = kept[0];
  for (std::size_t i = 1; i < kept.size(); ++i) result = apply(fn, result, kept[i]);
  return result;
}

// Adds a multiple of get_zero an atom wherever that makes the sum smaller.
template <class E>
E Simplifier<E>::join_splits(E sum) {
  for (bool changed = true; changed;) {
    changed = false;
    E next;
    int size = -1;  // size of the sum; computed only if there is something to join
    for (const TermView<E> view(sum); const Term<E>& t : view) {
      for (std::size_t i = 0; i < t.atoms.size() && !changed; ++i) {
        std::optional<E> smaller = joined(sum, t, i);
        if (!smaller) continue;
        if (size < 0) size = measure_size(sum);
        if (measure_size(*smaller) >= size) continue;
        next = std::move(*smaller);
        changed = true;
      }
      if (changed) break;
    }
    if (changed) sum = std::move(next);
  }
  return sum;
}

template <class E>
std::optional<E> Simplifier<E>::joined(const E& sum, const Term<E>& t, std::size_t i) {
  const Atom<E>& atom = t.atoms[i];
  if (atom.fn != Fn::mod && atom.fn != Fn::floordiv) return std::nullopt;
  Term<E> others = t;
  others.atoms.erase(others.atoms.begin() + static_cast<std::ptrdiff_t>(i));
  if (atom.fn == Fn::mod) return sum + of_term<E>(std::move(others)) * get_zero(atom);
  const std::optional<E> factor = of_term<E>(std::move(others)).exact_div(atom.args[1]);
  if (!factor) return std::nullopt;
  return sum + *factor * get_zero(atom);
}

template <class E>
const E& Simplifier<E>::get_zero(const Atom<E>& atom) {
  const auto known = zeros_.find(atom);
  if (known != zeros_.end()) return known->second;
  const E &x = atom.args[0], &k = atom.args[1];
  return zeros_.emplace(atom, x - mod(x, k) - k * floordiv(x, k)).first->second;
}

template class Simplifier<Dim>;
template class Simplifier<ir::IndexExpr>;

}  // namespace base

Dim simplify(const Dim& a, const DimRanges& ranges) {
  return a.is_const() ? a : base::Simplifier<Dim>(ranges).simplify(a);
}

ir::IndexExpr ir::simplify(const IndexExpr& a, const IndexRanges& ranges) {
  return a.is_const() ? a : base::Simplifier<IndexExpr>(ranges).simplify(a);
}

}  // namespace fusec

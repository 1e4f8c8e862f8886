// SPDX-License-Identifier: Apache-2.0
// Simplifies Dims by what the ranges of symbols decide about floordiv, mod, min and max. The result equals the input
// for all values in range; a rewrite that overflows is dropped.

#include "ir/base/dim_simplify.h"

#include <algorithm>

namespace fusec {
namespace base {
namespace {

using Fn = Dim::Fn;

constexpr int kMaxRounds = 4;  // two rounds settle every case seen so far

// The number of nodes in the expression. A rewrite is accepted only if it lowers this number.
int size_of(const Dim& a) {
  int n = 0;
  for (const TermView view(a); const Dim::Term& t : view) {
    n += t.coefficient == 1 ? 1 : 2;
    for (const Dim::Atom& atom : t.atoms) {
      n += atom.fn == Fn::symbol ? 1 : 4;
      for (const Dim& arg : atom.args) n += size_of(arg);
    }
  }
  return n;
}

// x = k * multiple + rest, by polynomial division.
Split divide_polynomials(const Dim& x, const Dim& k) {
  if (TermView(k).size() == 1) return split_multiples(x, k);
  const auto less = [](const Dim::Term& a, const Dim::Term& b) { return graded_less(a.atoms, b.atoms); };
  const Terms divisor = k.terms();
  const Dim::Term& lead = *std::max_element(divisor.begin(), divisor.end(), less);
  Split s{0, x};
  // Each round takes the greatest term that `lead` divides. The remainder is smaller in the graded order.
  for (bool found = true; found;) {
    found = false;
    Terms terms = s.rest.terms();
    std::sort(terms.begin(), terms.end(), [&](const Dim::Term& a, const Dim::Term& b) { return less(b, a); });
    for (const Dim::Term& t : terms) {
      std::optional<Atoms> atoms = divide(t.atoms, lead.atoms);
      if (!atoms || t.coefficient % lead.coefficient != 0) continue;
      const Dim q = of_term({t.coefficient / lead.coefficient, std::move(*atoms)});
      s.multiple += q;
      s.rest = s.rest - q * k;
      found = true;
      break;
    }
  }
  return s;
}

void operands(Fn fn, const Dim& d, std::vector<Dim>& out) {
  const Dim::Atom* atom = as_atom(d);
  if (atom == nullptr || atom->fn != fn) {
    out.push_back(d);
    return;
  }
  for (const Dim& arg : atom->args) operands(fn, arg, out);
}

}  // namespace

Dim Simplifier::simplify(const Dim& a) {
  if (a.is_const()) return a;
  if (const auto known = simplified_.find(a); known != simplified_.end()) return known->second;
  Dim current = a;
  try {
    for (int round = 0; round < kMaxRounds; ++round) {
      Dim next = run(current);
      if (next == current) break;
      current = std::move(next);
    }
  } catch (const DimOverflow&) {
    current = a;
  }
  return simplified_.emplace(a, std::move(current)).first->second;
}

bool Simplifier::nonneg(const Dim& a) {
  if (a.is_const()) return a.value() >= 0;
  const auto known = nonneg_.find(a);
  return known != nonneg_.end() ? known->second : nonneg_.emplace(a, prover_.nonneg(a)).first->second;
}

Dim Simplifier::run(const Dim& a) {
  if (a.is_const()) return a;
  Dim sum = 0;
  for (const TermView view(a); const Dim::Term& t : view) {
    Dim product = t.coefficient;
    for (const Dim::Atom& atom : t.atoms) product *= of(atom);
    sum += product;
  }
  return join_splits(std::move(sum));
}

Dim Simplifier::of(const Dim::Atom& atom) {
  if (atom.fn == Fn::symbol) return of_atom(atom);
  const auto known = atoms_.find(atom);
  return known != atoms_.end() ? known->second : atoms_.emplace(atom, of_function(atom)).first->second;
}

Dim Simplifier::of_function(const Dim::Atom& atom) {
  const Dim x = run(atom.args[0]), y = run(atom.args[1]);
  if (x.is_const() && y.is_const()) return apply(atom.fn, x, y);
  if (atom.fn == Fn::min || atom.fn == Fn::max) return extremum(atom.fn, x, y);
  if (const std::optional<Split> s = divide_in_range(x, y)) return atom.fn == Fn::floordiv ? s->multiple : s->rest;
  if (const std::optional<Dim> d = divide_common(atom.fn, x, y)) return *d;
  return apply(atom.fn, x, y);
}

// x = k * q + r with a proof of 0 <= r < k.
std::optional<Split> Simplifier::divide_in_range(const Dim& x, const Dim& k) {
  Split s = divide_polynomials(x, k);
  if (prover_.within(s.rest, k)) return s;
  // -k <= r < 0 results from expressions such as n*i - 1.
  if (prover_.within(s.rest + k, k)) return Split{s.multiple - 1, s.rest + k};
  if (!k.is_const() || k.value() <= 0) return std::nullopt;
  const std::optional<int64_t> lo = prover_.lower_bound(s.rest), hi = prover_.upper_bound(s.rest);
  if (!lo || !hi || floor_div(*lo, k.value()) != floor_div(*hi, k.value())) return std::nullopt;
  const int64_t q = floor_div(*lo, k.value());
  return Split{s.multiple + q, s.rest - mul(q, k.value())};
}

// floordiv(g*u + v, g*m) = floordiv(u, m) and mod(g*u + v, g*m) = g*mod(u, m) + v for 0 <= v < g
std::optional<Dim> Simplifier::divide_common(Fn fn, const Dim& x, const Dim& k) {
  if (TermView(k).size() != 1) return std::nullopt;
  std::vector<Dim> tried;
  for (const TermView view(x); const Dim::Term& t : view) {
    if (t.atoms.empty()) continue;
    const Dim g = of_term(common_factor(of_term(t), k));
    if (g.is(1) || std::find(tried.begin(), tried.end(), g) != tried.end()) continue;
    tried.push_back(g);
    const std::optional<Dim> m = k.exact_div(g);
    const Split s = split_multiples(x, g);
    if (!m || s.rest.is(0) || !prover_.within(s.rest, g)) continue;
    const Dim inner = run(apply(fn, s.multiple, *m));
    return fn == Fn::floordiv ? inner : g * inner + s.rest;
  }
  return std::nullopt;
}

// Drops operands over which another operand is proven to win.
Dim Simplifier::extremum(Fn fn, const Dim& x, const Dim& y) {
  std::vector<Dim> all, kept;
  operands(fn, x, all);
  operands(fn, y, all);
  const auto wins = [&](const Dim& a, const Dim& b) { return prover_.nonneg(fn == Fn::min ? b - a : a - b); };
  for (const Dim& d : all) {
    if (std::any_of(kept.begin(), kept.end(), [&](const Dim& other) { return wins(other, d); })) continue;
    std::erase_if(kept, [&](const Dim& other) { return wins(d, other); });
    kept.push_back(d);
  }
  Dim result = kept[0];
  for (std::size_t i = 1; i < kept.size(); ++i) result = apply(fn, result, kept[i]);
  return result;
}

// Adds a multiple of zero_of an atom wherever that makes the sum smaller.
Dim Simplifier::join_splits(Dim sum) {
  for (bool changed = true; changed;) {
    changed = false;
    Dim next;
    int size = -1;  // size of the sum; computed only if there is something to join
    for (const TermView view(sum); const Dim::Term& t : view) {
      for (std::size_t i = 0; i < t.atoms.size() && !changed; ++i) {
        std::optional<Dim> smaller = joined(sum, t, i);
        if (!smaller) continue;
        if (size < 0) size = size_of(sum);
        if (size_of(*smaller) >= size) continue;
        next = std::move(*smaller);
        changed = true;
      }
      if (changed) break;
    }
    if (changed) sum = std::move(next);
  }
  return sum;
}

std::optional<Dim> Simplifier::joined(const Dim& sum, const Dim::Term& t, std::size_t i) {
  const Dim::Atom& atom = t.atoms[i];
  if (atom.fn != Fn::mod && atom.fn != Fn::floordiv) return std::nullopt;
  Dim::Term others = t;
  others.atoms.erase(others.atoms.begin() + static_cast<std::ptrdiff_t>(i));
  if (atom.fn == Fn::mod) return sum + of_term(std::move(others)) * zero_of(atom);
  const std::optional<Dim> factor = of_term(std::move(others)).exact_div(atom.args[1]);
  if (!factor) return std::nullopt;
  return sum + *factor * zero_of(atom);
}

const Dim& Simplifier::zero_of(const Dim::Atom& atom) {
  const auto known = zeros_.find(atom);
  if (known != zeros_.end()) return known->second;
  const Dim &x = atom.args[0], &k = atom.args[1];
  return zeros_.emplace(atom, x - mod(x, k) - k * floordiv(x, k)).first->second;
}

}  // namespace base

Dim simplify(const Dim& a, const DimRanges& ranges) {
  if (a.is_const()) return a;
  return base::Simplifier(ranges).simplify(a);
}

}  // namespace fusec

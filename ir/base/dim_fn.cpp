// SPDX-License-Identifier: Apache-2.0
// Builds floordiv, mod, min and max of Dims and IndexExprs in canonical form. It uses only algebraic identities,
// without ranges of symbols; dim_simplify.cpp uses ranges.

#include <algorithm>

#include "ir/base/dim_internal.h"

namespace fusec {
namespace base {

namespace {

template <class E>
Split<E> split_by_constant(const E& a, int64_t k) {
  Terms<E> multiple, rest;
  for (const TermView<E> view(a); const Term<E>& t : view) {
    if (t.atoms.empty()) {
      const int64_t q = floor_div(t.coefficient, k), r = floor_mod(t.coefficient, k);
      if (q != 0) multiple.push_back({q, {}});
      if (r != 0) rest.push_back({r, {}});
    } else if (t.coefficient % k == 0) {
      multiple.push_back({t.coefficient / k, t.atoms});
    } else {
      rest.push_back(t);
    }
  }
  return {DimAccess::make<E>(std::move(multiple)), DimAccess::make<E>(std::move(rest))};
}

}  // namespace

template <class E>
Split<E> split_multiples(const E& a, const E& b) {
  if (b.is_const()) return split_by_constant(a, b.value());
  Split<E> s;
  for (const TermView<E> view(a); const Term<E>& t : view) {
    const E term = of_term<E>(t);
    if (const std::optional<E> q = term.exact_div(b)) {
      s.multiple += *q;
    } else {
      s.rest += term;
    }
  }
  return s;
}

namespace {

// The gcd of k and the coefficients of the terms with atoms.
template <class E>
int64_t coefficient_gcd(const E& a, int64_t k) {
  for (const TermView<E> view(a); const Term<E>& t : view) {
    if (!t.atoms.empty()) k = gcd(k, t.coefficient);
  }
  return k;
}

// floor(a / g), where g divides all coefficients except the constant term.
template <class E>
E divide_coefficients(const E& a, int64_t g) {
  Terms<E> out;
  for (const TermView<E> view(a); const Term<E>& t : view) {
    if (const int64_t c = floor_div(t.coefficient, g)) out.push_back({c, t.atoms});
  }
  return DimAccess::make<E>(std::move(out));
}

// floordiv(floordiv(x, m) + c, k) = floordiv(x + m*c, m*k)
template <class E>
std::optional<E> merge_nested(const E& a, const E& k) {
  const E rest = a - constant_term(a);
  const Atom<E>* atom = as_atom(rest);
  if (atom == nullptr || atom->fn != Fn::floordiv) return std::nullopt;
  const E &x = atom->args[0], &m = atom->args[1];
  return floordiv(x + m * constant_term(a), m * k);
}

// floordiv(mod(x, m*k), k) = mod(floordiv(x, k), m)
template <class E>
std::optional<E> divide_mod(const E& a, const E& k) {
  const Atom<E>* atom = as_atom(a);
  if (atom == nullptr || atom->fn != Fn::mod) return std::nullopt;
  const std::optional<E> m = atom->args[1].exact_div(k);
  if (!m) return std::nullopt;
  return mod(floordiv(atom->args[0], k), *m);
}

template <class E>
E floordiv_constant(const E& a, int64_t k) {
  if (k == 0) throw DimOverflow();
  if (k < 0) return floordiv_constant(-a, sub(0, k));
  if (a.is_const()) return floor_div(a.value(), k);
  if (k == 1) return a;
  const Split<E> s = split_by_constant(a, k);
  if (s.rest.is_const()) return s.multiple;  // 0 <= rest < k
  // floordiv(g*x + c, g*k) = floordiv(x + floordiv(c, g), k)
  const int64_t g = coefficient_gcd(s.rest, k);
  const E x = g > 1 ? divide_coefficients(s.rest, g) : s.rest;
  k /= g;
  if (std::optional<E> d = merge_nested<E>(x, k)) return s.multiple + *d;
  if (std::optional<E> d = divide_mod<E>(x, k)) return s.multiple + *d;
  return s.multiple + of_atom<E>({Fn::floordiv, {}, {x, E(k)}});
}

// Divides a and b by their common factor; false if it is 1.
template <class E>
bool cancel(E& a, E& b, E& factor) {
  factor = of_term<E>(common_factor(a, b));
  if (factor.is(1)) return false;
  a = *a.exact_div(factor);
  b = *b.exact_div(factor);
  return true;
}

template <class E>
E floordiv_symbolic(E a, E b) {
  if (a.is(0) || a.is(-1)) return a;  // b >= 1
  if (std::optional<E> q = a.exact_div(b)) return *q;
  E quotient = 0, factor;
  if (TermView<E>(b).size() == 1) {
    Split<E> s = split_multiples(a, b);
    quotient = std::move(s.multiple);
    a = std::move(s.rest);
  }
  if (a.is(-1)) return quotient - 1;
  if (cancel(a, b, factor)) return quotient + floordiv(a, b);
  if (std::optional<E> d = merge_nested(a, b)) return quotient + *d;
  if (std::optional<E> d = divide_mod(a, b)) return quotient + *d;
  return quotient + of_atom<E>({Fn::floordiv, {}, {std::move(a), std::move(b)}});
}

// mod(c*mod(x, m) + y, k) = mod(c*x + y, k) where k divides c*m
template <class E>
std::optional<E> drop_inner_mod(const E& a, const E& k) {
  for (const TermView<E> view(a); const Term<E>& t : view) {
    if (t.atoms.size() != 1 || t.atoms[0].fn != Fn::mod) continue;
    if ((t.coefficient * t.atoms[0].args[1]).exact_div(k))
      return a + t.coefficient * t.atoms[0].args[0] - of_term<E>(t);
  }
  return std::nullopt;
}

template <class E>
E mod_constant(const E& a, int64_t k) {
  if (k == 0) throw DimOverflow();
  if (k < 0) return -mod_constant(-a, sub(0, k));
  if (a.is_const()) return floor_mod(a.value(), k);
  Terms<E> terms;
  for (const TermView<E> view(a); const Term<E>& t : view) {
    const int64_t c = t.atoms.empty() ? floor_mod(t.coefficient, k) : t.coefficient % k;
    if (c != 0) terms.push_back({c, t.atoms});
  }
  const E rest = DimAccess::make<E>(std::move(terms));
  if (rest.is_const()) return rest;
  if (std::optional<E> inner = drop_inner_mod<E>(rest, k)) return mod_constant(*inner, k);
  // mod(g*x + c, g*k) = g*mod(x + floordiv(c, g), k) + mod(c, g)
  const int64_t g = coefficient_gcd(rest, k);
  const E x = g > 1 ? divide_coefficients(rest, g) : rest;
  return g * of_atom<E>({Fn::mod, {}, {x, E(k / g)}}) + floor_mod(constant_term(rest), g);
}

template <class E>
E mod_symbolic(E a, E b) {
  if (a.is(0)) return 0;
  if (a.is(-1)) return b - 1;
  if (a.exact_div(b)) return 0;
  if (TermView<E>(b).size() == 1) a = split_multiples(a, b).rest;
  if (a.is(-1)) return b - 1;
  E factor;
  if (cancel(a, b, factor)) return factor * mod(a, b);
  if (std::optional<E> inner = drop_inner_mod(a, b)) return mod(*inner, b);
  return of_atom<E>({Fn::mod, {}, {std::move(a), std::move(b)}});
}

template <class E>
E quotient_of(const E& a, const E& b) {
  return b.is_const() ? floordiv_constant(a, b.value()) : floordiv_symbolic(a, b);
}

template <class E>
E remainder_of(const E& a, const E& b) {
  return b.is_const() ? mod_constant(a, b.value()) : mod_symbolic(a, b);
}

// The operands of nested min or max.
template <class E>
void flatten(Fn fn, const E& d, std::vector<E>& out) {
  const Atom<E>* atom = as_atom(d);
  if (atom != nullptr && atom->fn == fn) {
    for (const E& arg : atom->args) flatten(fn, arg, out);
  } else {
    out.push_back(d);
  }
}

template <class E>
E extremum(Fn fn, const E& a, const E& b) {
  if (a.is_const() && b.is_const())
    return fn == Fn::min ? std::min(a.value(), b.value()) : std::max(a.value(), b.value());
  std::vector<E> args, kept;
  flatten(fn, a, args);
  flatten(fn, b, args);
  for (const E& x : args) {
    bool absorbed = false;
    for (E& y : kept) {
      const E difference = x - y;
      if (!difference.is_const()) continue;
      absorbed = true;
      if ((difference.value() < 0) == (fn == Fn::min)) y = x;
      break;
    }
    if (!absorbed) kept.push_back(x);
  }
  std::sort(kept.begin(), kept.end());
  E result = kept.back();
  for (std::size_t i = kept.size() - 1; i-- > 0;) result = of_atom<E>({fn, {}, {kept[i], result}});
  return result;
}

}  // namespace

template <class E>
E apply(Fn fn, const E& a, const E& b) {
  switch (fn) {
    case Fn::floordiv:
      return floordiv(a, b);
    case Fn::mod:
      return mod(a, b);
    case Fn::min:
      return min(a, b);
    default:
      return max(a, b);
  }
}

template Split<Dim> split_multiples(const Dim&, const Dim&);
template Split<ir::IndexExpr> split_multiples(const ir::IndexExpr&, const ir::IndexExpr&);
template Dim apply(Fn, const Dim&, const Dim&);
template ir::IndexExpr apply(Fn, const ir::IndexExpr&, const ir::IndexExpr&);

}  // namespace base

Dim floordiv(const Dim& a, const Dim& b) { return base::quotient_of(a, b); }
Dim mod(const Dim& a, const Dim& b) { return base::remainder_of(a, b); }
Dim ceildiv(const Dim& a, const Dim& b) { return floordiv(a + b - 1, b); }
Dim min(const Dim& a, const Dim& b) { return base::extremum(Dim::Fn::min, a, b); }
Dim max(const Dim& a, const Dim& b) { return base::extremum(Dim::Fn::max, a, b); }

namespace ir {

IndexExpr floordiv(const IndexExpr& a, const IndexExpr& b) { return base::quotient_of(a, b); }
IndexExpr mod(const IndexExpr& a, const IndexExpr& b) { return base::remainder_of(a, b); }
IndexExpr ceildiv(const IndexExpr& a, const IndexExpr& b) { return floordiv(a + b - 1, b); }
IndexExpr min(const IndexExpr& a, const IndexExpr& b) { return base::extremum(Dim::Fn::min, a, b); }
IndexExpr max(const IndexExpr& a, const IndexExpr& b) { return base::extremum(Dim::Fn::max, a, b); }

}  // namespace ir
}  // namespace fusec

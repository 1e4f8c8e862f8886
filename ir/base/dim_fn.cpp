// SPDX-License-Identifier: Apache-2.0
// Builds floordiv, mod, min and max of Dims in canonical form. It uses only algebraic identities, without ranges of
// symbols; dim_simplify.cpp uses ranges.

#include <algorithm>

#include "ir/base/dim_internal.h"

namespace fusec {
namespace base {

using Fn = Dim::Fn;

namespace {

Split split_by_constant(const Dim& a, int64_t k) {
  Terms multiple, rest;
  for (const TermView view(a); const Dim::Term& t : view) {
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
  return {DimAccess::make(std::move(multiple)), DimAccess::make(std::move(rest))};
}

}  // namespace

Split split_multiples(const Dim& a, const Dim& b) {
  if (b.is_const()) return split_by_constant(a, b.value());
  Split s;
  for (const TermView view(a); const Dim::Term& t : view) {
    const Dim term = of_term(t);
    if (const std::optional<Dim> q = term.exact_div(b)) {
      s.multiple += *q;
    } else {
      s.rest += term;
    }
  }
  return s;
}

namespace {

// The gcd of k and the coefficients of the terms with atoms.
int64_t coefficient_gcd(const Dim& a, int64_t k) {
  for (const TermView view(a); const Dim::Term& t : view) {
    if (!t.atoms.empty()) k = gcd(k, t.coefficient);
  }
  return k;
}

// floor(a / g), where g divides all coefficients except the constant term.
Dim divide_coefficients(const Dim& a, int64_t g) {
  Terms out;
  for (const TermView view(a); const Dim::Term& t : view) {
    if (const int64_t c = floor_div(t.coefficient, g)) out.push_back({c, t.atoms});
  }
  return DimAccess::make(std::move(out));
}

// floordiv(floordiv(x, m) + c, k) = floordiv(x + m*c, m*k)
std::optional<Dim> merge_nested(const Dim& a, const Dim& k) {
  const Dim rest = a - constant_term(a);
  const Dim::Atom* atom = as_atom(rest);
  if (atom == nullptr || atom->fn != Fn::floordiv) return std::nullopt;
  const Dim &x = atom->args[0], &m = atom->args[1];
  return floordiv(x + m * constant_term(a), m * k);
}

// floordiv(mod(x, m*k), k) = mod(floordiv(x, k), m)
std::optional<Dim> divide_mod(const Dim& a, const Dim& k) {
  const Dim::Atom* atom = as_atom(a);
  if (atom == nullptr || atom->fn != Fn::mod) return std::nullopt;
  const std::optional<Dim> m = atom->args[1].exact_div(k);
  if (!m) return std::nullopt;
  return mod(floordiv(atom->args[0], k), *m);
}

Dim floordiv_constant(const Dim& a, int64_t k) {
  if (k == 0) throw DimOverflow();
  if (k < 0) return floordiv_constant(-a, sub(0, k));
  if (a.is_const()) return floor_div(a.value(), k);
  if (k == 1) return a;
  const Split s = split_by_constant(a, k);
  if (s.rest.is_const()) return s.multiple;  // 0 <= rest < k
  // floordiv(g*x + c, g*k) = floordiv(x + floordiv(c, g), k)
  const int64_t g = coefficient_gcd(s.rest, k);
  const Dim x = g > 1 ? divide_coefficients(s.rest, g) : s.rest;
  k /= g;
  if (std::optional<Dim> d = merge_nested(x, k)) return s.multiple + *d;
  if (std::optional<Dim> d = divide_mod(x, k)) return s.multiple + *d;
  return s.multiple + of_atom({Fn::floordiv, {}, {x, Dim(k)}});
}

// Divides a and b by their common factor; false if it is 1.
bool cancel(Dim& a, Dim& b, Dim& factor) {
  factor = of_term(common_factor(a, b));
  if (factor.is(1)) return false;
  a = *a.exact_div(factor);
  b = *b.exact_div(factor);
  return true;
}

Dim floordiv_symbolic(Dim a, Dim b) {
  if (a.is(0) || a.is(-1)) return a;  // b >= 1
  if (std::optional<Dim> q = a.exact_div(b)) return *q;
  Dim quotient = 0, factor;
  if (TermView(b).size() == 1) {
    Split s = split_multiples(a, b);
    quotient = std::move(s.multiple);
    a = std::move(s.rest);
  }
  if (a.is(-1)) return quotient - 1;
  if (cancel(a, b, factor)) return quotient + floordiv(a, b);
  if (std::optional<Dim> d = merge_nested(a, b)) return quotient + *d;
  if (std::optional<Dim> d = divide_mod(a, b)) return quotient + *d;
  return quotient + of_atom({Fn::floordiv, {}, {std::move(a), std::move(b)}});
}

// mod(c*mod(x, m) + y, k) = mod(c*x + y, k) where k divides c*m
std::optional<Dim> drop_inner_mod(const Dim& a, const Dim& k) {
  for (const TermView view(a); const Dim::Term& t : view) {
    if (t.atoms.size() != 1 || t.atoms[0].fn != Fn::mod) continue;
    if ((t.coefficient * t.atoms[0].args[1]).exact_div(k)) return a + t.coefficient * t.atoms[0].args[0] - of_term(t);
  }
  return std::nullopt;
}

Dim mod_constant(const Dim& a, int64_t k) {
  if (k == 0) throw DimOverflow();
  if (k < 0) return -mod_constant(-a, sub(0, k));
  if (a.is_const()) return floor_mod(a.value(), k);
  Terms terms;
  for (const TermView view(a); const Dim::Term& t : view) {
    const int64_t c = t.atoms.empty() ? floor_mod(t.coefficient, k) : t.coefficient % k;
    if (c != 0) terms.push_back({c, t.atoms});
  }
  const Dim rest = DimAccess::make(std::move(terms));
  if (rest.is_const()) return rest;
  if (std::optional<Dim> inner = drop_inner_mod(rest, k)) return mod_constant(*inner, k);
  // mod(g*x + c, g*k) = g*mod(x + floordiv(c, g), k) + mod(c, g)
  const int64_t g = coefficient_gcd(rest, k);
  const Dim x = g > 1 ? divide_coefficients(rest, g) : rest;
  return g * of_atom({Fn::mod, {}, {x, Dim(k / g)}}) + floor_mod(constant_term(rest), g);
}

Dim mod_symbolic(Dim a, Dim b) {
  if (a.is(0)) return 0;
  if (a.is(-1)) return b - 1;
  if (a.exact_div(b)) return 0;
  if (TermView(b).size() == 1) a = split_multiples(a, b).rest;
  if (a.is(-1)) return b - 1;
  Dim factor;
  if (cancel(a, b, factor)) return factor * mod(a, b);
  if (std::optional<Dim> inner = drop_inner_mod(a, b)) return mod(*inner, b);
  return of_atom({Fn::mod, {}, {std::move(a), std::move(b)}});
}

// The operands of nested min or max.
void flatten(Fn fn, const Dim& d, std::vector<Dim>& out) {
  const Dim::Atom* atom = as_atom(d);
  if (atom != nullptr && atom->fn == fn) {
    for (const Dim& arg : atom->args) flatten(fn, arg, out);
  } else {
    out.push_back(d);
  }
}

Dim extremum(Fn fn, const Dim& a, const Dim& b) {
  std::vector<Dim> args, kept;
  flatten(fn, a, args);
  flatten(fn, b, args);
  for (const Dim& x : args) {
    bool absorbed = false;
    for (Dim& y : kept) {
      const Dim difference = x - y;
      if (!difference.is_const()) continue;
      absorbed = true;
      if ((difference.value() < 0) == (fn == Fn::min)) y = x;
      break;
    }
    if (!absorbed) kept.push_back(x);
  }
  std::sort(kept.begin(), kept.end());
  Dim result = kept.back();
  for (std::size_t i = kept.size() - 1; i-- > 0;) result = of_atom({fn, {}, {kept[i], result}});
  return result;
}

}  // namespace

Dim apply(Dim::Fn fn, const Dim& a, const Dim& b) {
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

}  // namespace base

Dim floordiv(const Dim& a, const Dim& b) {
  return b.is_const() ? base::floordiv_constant(a, b.value()) : base::floordiv_symbolic(a, b);
}

Dim mod(const Dim& a, const Dim& b) {
  return b.is_const() ? base::mod_constant(a, b.value()) : base::mod_symbolic(a, b);
}

Dim ceildiv(const Dim& a, const Dim& b) { return floordiv(a + b - 1, b); }

Dim min(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) return std::min(a.value(), b.value());
  return base::extremum(Dim::Fn::min, a, b);
}

Dim max(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) return std::max(a.value(), b.value());
  return base::extremum(Dim::Fn::max, a, b);
}

}  // namespace fusec

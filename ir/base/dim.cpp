// SPDX-License-Identifier: Apache-2.0
// The polynomial part of Dim and IndexExpr: canonical sums of products, their arithmetic, comparison, exact division,
// substitution and evaluation. Every result is canonical, so that equal polynomials have equal terms; overflow throws
// DimOverflow.

#include "fusec/dim.h"

#include <algorithm>

#include "ir/base/dim_internal.h"

namespace fusec {
namespace base {
namespace {

// Larger expressions are of no use; only hostile models reach these limits.
constexpr std::size_t kMaxTerms = 4096;
constexpr std::size_t kMaxDegree = 256;

// Sorts terms whose atoms are sorted, adds equal monomials and drops zeros.
template <class E>
Terms<E> combine(Terms<E> terms) {
  std::sort(terms.begin(), terms.end(),
            [](const Term<E>& a, const Term<E>& b) { return compare_monomials<E>(a.atoms, b.atoms) < 0; });
  Terms<E> out;
  for (Term<E>& t : terms) {
    if (!out.empty() && compare_monomials<E>(out.back().atoms, t.atoms) == 0) {
      out.back().coefficient = add(out.back().coefficient, t.coefficient);
    } else {
      if (!out.empty() && out.back().coefficient == 0) out.pop_back();
      out.push_back(std::move(t));
    }
  }
  if (!out.empty() && out.back().coefficient == 0) out.pop_back();
  return out;
}

// a + sign * b by merging two sorted lists.
template <class E>
E merge(const E& a, const E& b, int64_t sign) {
  const TermView<E> x(a), y(b);
  Terms<E> out;
  out.reserve(x.size() + y.size());
  std::size_t i = 0, j = 0;
  while (i < x.size() || j < y.size()) {
    const int order = i == x.size() ? 1 : j == y.size() ? -1 : compare_monomials<E>(x[i].atoms, y[j].atoms);
    if (order < 0) {
      out.push_back(x[i++]);
    } else if (order > 0) {
      out.push_back({mul(sign, y[j].coefficient), y[j].atoms});
      ++j;
    } else {
      const int64_t c = sign > 0 ? add(x[i].coefficient, y[j].coefficient) : sub(x[i].coefficient, y[j].coefficient);
      if (c != 0) out.push_back({c, x[i].atoms});
      ++i, ++j;
    }
  }
  return DimAccess::make<E>(std::move(out));
}

template <class E>
E scale(const E& a, int64_t factor) {
  if (factor == 0) return 0;
  if (factor == 1) return a;
  Terms<E> out = a.terms();
  for (Term<E>& t : out) t.coefficient = mul(t.coefficient, factor);
  return DimAccess::make<E>(std::move(out));
}

template <class E>
E sum(const E& a, const E& b) {
  if (a.is_const() && b.is_const()) return add(a.value(), b.value());
  if (a.is(0)) return b;
  if (b.is(0)) return a;
  return merge(a, b, 1);
}

template <class E>
E difference(const E& a, const E& b) {
  if (a.is_const() && b.is_const()) return sub(a.value(), b.value());
  if (b.is(0)) return a;
  return merge(a, b, -1);
}

template <class E>
E product(const E& a, const E& b) {
  if (a.is_const() && b.is_const()) return mul(a.value(), b.value());
  if (a.is_const()) return scale(b, a.value());
  if (b.is_const()) return scale(a, b.value());
  const TermView<E> left(a), right(b);
  if (left.size() * right.size() > kMaxTerms) throw DimOverflow();
  Terms<E> out;
  out.reserve(left.size() * right.size());
  for (const Term<E>& x : left) {
    for (const Term<E>& y : right) {
      if (x.atoms.size() + y.atoms.size() > kMaxDegree) throw DimOverflow();
      Term<E> t{mul(x.coefficient, y.coefficient), {}};
      t.atoms.reserve(x.atoms.size() + y.atoms.size());
      std::merge(x.atoms.begin(), x.atoms.end(), y.atoms.begin(), y.atoms.end(), std::back_inserter(t.atoms),
                 atom_less<Atom<E>>);
      out.push_back(std::move(t));
    }
  }
  return DimAccess::make<E>(combine<E>(std::move(out)));
}

template <class E>
int order_of(const E& a, const E& b) {
  if (a.is_const() || b.is_const()) {
    if (a.is_const() != b.is_const()) return a.is_const() ? -1 : 1;
    return a.value() == b.value() ? 0 : a.value() < b.value() ? -1 : 1;
  }
  if (DimAccess::shared(a) == DimAccess::shared(b)) return 0;
  const Terms<E>&x = *DimAccess::shared(a), &y = *DimAccess::shared(b);
  for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (const int order = compare_monomials<E>(x[i].atoms, y[i].atoms)) return order;
    if (x[i].coefficient != y[i].coefficient) return x[i].coefficient < y[i].coefficient ? -1 : 1;
  }
  return x.size() == y.size() ? 0 : x.size() < y.size() ? -1 : 1;
}

template <class E>
E sorted_sum(Terms<E> terms) {
  for (Term<E>& t : terms) std::sort(t.atoms.begin(), t.atoms.end(), atom_less<Atom<E>>);
  return DimAccess::make<E>(combine<E>(std::move(terms)));
}

// Long division by the greatest term of d.
template <class E>
std::optional<E> quotient(const E& a, const E& d) {
  if (d.is(0)) return std::nullopt;
  if (a.is_const() && d.is_const()) {
    if (floor_mod(a.value(), d.value()) != 0) return std::nullopt;
    return floor_div(a.value(), d.value());
  }
  const auto less = [](const Term<E>& x, const Term<E>& y) { return graded_less<E>(x.atoms, y.atoms); };
  const TermView<E> divisor(d);
  const Term<E>& lead = *std::max_element(divisor.begin(), divisor.end(), less);
  E rest = a, out = 0;
  while (!rest.is(0)) {
    const TermView<E> terms(rest);
    const Term<E>& top = *std::max_element(terms.begin(), terms.end(), less);
    if (floor_mod(top.coefficient, lead.coefficient) != 0) return std::nullopt;
    std::optional<Atoms<E>> atoms = divide<E>(top.atoms, lead.atoms);
    if (!atoms) return std::nullopt;
    const E q = of_term<E>({floor_div(top.coefficient, lead.coefficient), std::move(*atoms)});
    out += q;
    rest = rest - q * d;
  }
  return out;
}

template <class A>
int64_t compute_divisor(const A& atom) {
  switch (atom.fn) {
    case Fn::min:
    case Fn::max:
    case Fn::mod:
      return gcd(atom.args[0].known_divisor(), atom.args[1].known_divisor());
    default:
      return 1;
  }
}

// The product of two divisors, or only the first one if the product exceeds 64 bits.
int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? a : r;
}

template <class E>
int64_t common_divisor(const E& a) {
  int64_t g = 0;
  for (const TermView<E> view(a); const Term<E>& t : view) {
    int64_t d = gcd(t.coefficient, 0);
    for (const Atom<E>& atom : t.atoms) d = saturating_mul(d, compute_divisor(atom));
    g = gcd(g, d);
  }
  return g;
}

// Replaces every symbol by map(symbol), of type To; an empty result keeps it, which needs To = E.
template <class To, class E, class F>
To replaced(const E& e, const F& map) {
  if (e.is_const()) return e.value();
  Terms<To> total;
  for (const TermView<E> view(e); const Term<E>& t : view) {
    To factor = t.coefficient;
    for (const Atom<E>& atom : t.atoms) {
      factor *= atom.fn == Fn::symbol
                    ? To(map(atom))
                    : apply<To>(atom.fn, replaced<To>(atom.args[0], map), replaced<To>(atom.args[1], map));
    }
    for (const TermView<To> terms(factor); const Term<To>& term : terms) total.push_back(term);
  }
  return DimAccess::make<To>(combine<To>(std::move(total)));
}

// Whether `is_replaced` holds for a symbol of the expression, which is else shared and not built anew.
template <class E, class F>
bool has_replaced(const E& e, const F& is_replaced) {
  if (e.is_const()) return false;
  for (const TermView<E> view(e); const Term<E>& t : view) {
    for (const Atom<E>& atom : t.atoms) {
      if (atom.fn == Fn::symbol && is_replaced(symbol_of(atom))) return true;
      for (const E& arg : atom.args)
        if (has_replaced(arg, is_replaced)) return true;
    }
  }
  return false;
}

template <class E, class F>
E substituted(const E& e, const F& map) {
  if (!has_replaced(e, [&](const auto& symbol) { return map(symbol).has_value(); })) return e;
  return replaced<E>(e, [&](const Atom<E>& atom) {
    const std::optional<E> to = map(symbol_of(atom));
    return to ? *to : of_atom<E>(atom);
  });
}

template <class E, class Map>
E substituted_by(const E& e, const Map& map) {
  if (!has_replaced(e, [&](const auto& symbol) { return map.contains(symbol); })) return e;
  return replaced<E>(e, [&](const Atom<E>& atom) {
    const auto it = map.find(symbol_of(atom));
    return it == map.end() ? of_atom<E>(atom) : it->second;
  });
}

template <class E, class S>
void collect(const E& e, std::set<S>& out) {
  if (e.is_const()) return;
  for (const TermView<E> view(e); const Term<E>& t : view) {
    for (const Atom<E>& atom : t.atoms) {
      if (atom.fn == Fn::symbol) out.insert(symbol_of(atom));
      for (const E& arg : atom.args) collect(arg, out);
    }
  }
}

template <class E, class S>
bool mentions(const E& e, const S& symbol) {
  if (e.is_const()) return false;
  for (const TermView<E> view(e); const Term<E>& t : view) {
    for (const Atom<E>& atom : t.atoms) {
      if (atom.fn == Fn::symbol && symbol_of(atom) == symbol) return true;
      for (const E& arg : atom.args) {
        if (mentions(arg, symbol)) return true;
      }
    }
  }
  return false;
}

template <class A, class Bindings>
std::optional<int64_t> atom_value(const A& atom, const Bindings& bindings);

template <class E, class Bindings>
std::optional<int64_t> evaluated(const E& e, const Bindings& bindings) {
  if (e.is_const()) return e.value();
  int64_t total = 0;
  for (const TermView<E> view(e); const Term<E>& t : view) {
    int64_t factor = t.coefficient;
    for (const Atom<E>& atom : t.atoms) {
      const std::optional<int64_t> v = atom_value(atom, bindings);
      if (!v) return std::nullopt;
      factor = mul(factor, *v);
    }
    total = add(total, factor);
  }
  return total;
}

template <class A, class Bindings>
std::optional<int64_t> atom_value(const A& atom, const Bindings& bindings) {
  if (atom.fn == Fn::symbol) {
    const auto it = bindings.find(symbol_of(atom));
    return it == bindings.end() ? std::nullopt : std::optional(it->second);
  }
  const std::optional<int64_t> a = evaluated(atom.args[0], bindings), b = evaluated(atom.args[1], bindings);
  if (!a || !b) return std::nullopt;
  if (atom.fn == Fn::min) return std::min(*a, *b);
  if (atom.fn == Fn::max) return std::max(*a, *b);
  if (*b <= 0) return std::nullopt;
  return atom.fn == Fn::floordiv ? floor_div(*a, *b) : floor_mod(*a, *b);
}

}  // namespace

template <class E>
int compare_monomials(const Atoms<E>& a, const Atoms<E>& b) {
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (const int order = compare_atoms(a[i], b[i])) return order;
  }
  return a.size() == b.size() ? 0 : a.size() < b.size() ? -1 : 1;
}

template <class E>
std::optional<Atoms<E>> divide(const Atoms<E>& a, const Atoms<E>& b) {
  Atoms<E> out;
  std::size_t j = 0;
  for (const Atom<E>& atom : a) {
    if (j < b.size() && compare_atoms(atom, b[j]) == 0) {
      ++j;
    } else {
      out.push_back(atom);
    }
  }
  if (j != b.size()) return std::nullopt;
  return out;
}

template <class E>
Term<E> common_factor(const E& a, const E& b) {
  Term<E> common;
  bool first = true;
  for (const E* d : {&a, &b}) {
    const TermView<E> terms(*d);
    for (const Term<E>& t : terms) {
      common.coefficient = gcd(common.coefficient, t.coefficient);
      if (first) {
        std::copy_if(t.atoms.begin(), t.atoms.end(), std::back_inserter(common.atoms),
                     [](const Atom<E>& x) { return x.fn == Fn::symbol; });
      } else {
        Atoms<E> both;
        std::set_intersection(common.atoms.begin(), common.atoms.end(), t.atoms.begin(), t.atoms.end(),
                              std::back_inserter(both), atom_less<Atom<E>>);
        common.atoms = std::move(both);
      }
      first = false;
    }
  }
  return common;
}

}  // namespace base

template <class E>
E DimAccess::make(std::vector<typename E::Term> terms) {
  if (terms.empty()) return 0;
  if (terms.size() == 1 && terms[0].atoms.empty()) return terms[0].coefficient;
  if (terms.size() > base::kMaxTerms) throw DimOverflow();
  E d;
  d.terms_ = std::make_shared<const base::Terms<E>>(std::move(terms));
  return d;
}

template Dim DimAccess::make<Dim>(std::vector<Dim::Term>);
template ir::IndexExpr DimAccess::make<ir::IndexExpr>(std::vector<ir::IndexExpr::Term>);

namespace base {

template int compare_monomials<Dim>(const Atoms<Dim>&, const Atoms<Dim>&);
template int compare_monomials<ir::IndexExpr>(const Atoms<ir::IndexExpr>&, const Atoms<ir::IndexExpr>&);
template std::optional<Atoms<Dim>> divide<Dim>(const Atoms<Dim>&, const Atoms<Dim>&);
template std::optional<Atoms<ir::IndexExpr>> divide<ir::IndexExpr>(const Atoms<ir::IndexExpr>&,
                                                                   const Atoms<ir::IndexExpr>&);
template Term<Dim> common_factor(const Dim&, const Dim&);
template Term<ir::IndexExpr> common_factor(const ir::IndexExpr&, const ir::IndexExpr&);

}  // namespace base

Dim Dim::symbol(std::string name) { return base::of_atom<Dim>({Fn::symbol, std::move(name), {}}); }
std::optional<std::string> Dim::as_symbol() const {
  const Atom* atom = base::as_atom(*this);
  if (atom == nullptr || atom->fn != Fn::symbol) return std::nullopt;
  return atom->name;
}
std::vector<Dim::Term> Dim::terms() const {
  const base::TermView<Dim> view(*this);
  return {view.begin(), view.end()};
}
Dim Dim::from_terms(std::vector<Term> terms) { return base::sorted_sum<Dim>(std::move(terms)); }
Dim operator+(const Dim& a, const Dim& b) { return base::sum(a, b); }
Dim operator-(const Dim& a, const Dim& b) { return base::difference(a, b); }
Dim operator*(const Dim& a, const Dim& b) { return base::product(a, b); }
int compare(const Dim& a, const Dim& b) { return base::order_of(a, b); }
bool operator==(const Dim& a, const Dim& b) { return base::order_of(a, b) == 0; }
std::optional<Dim> Dim::exact_div(const Dim& d) const { return base::quotient(*this, d); }
int64_t Dim::known_divisor() const { return base::common_divisor(*this); }
Dim Dim::substitute(const std::function<std::optional<Dim>(const std::string&)>& map) const {
  return base::substituted(*this, map);
}
Dim Dim::substitute(const std::map<std::string, Dim>& map) const { return base::substituted_by(*this, map); }
void Dim::collect_symbols(std::set<std::string>& out) const { base::collect(*this, out); }
bool Dim::uses(const std::string& symbol) const { return base::mentions(*this, symbol); }

std::optional<int64_t> Dim::eval(const std::map<std::string, int64_t>& bindings) const {
  return base::evaluated(*this, bindings);
}

namespace ir {

IndexExpr IndexExpr::symbol(SymbolId id) { return base::of_atom<IndexExpr>({Fn::symbol, id, {}}); }
std::optional<SymbolId> IndexExpr::as_symbol() const {
  const Atom* atom = base::as_atom(*this);
  if (atom == nullptr || atom->fn != Fn::symbol) return std::nullopt;
  return atom->symbol;
}
std::vector<IndexExpr::Term> IndexExpr::terms() const {
  const base::TermView<IndexExpr> view(*this);
  return {view.begin(), view.end()};
}
IndexExpr IndexExpr::from_terms(std::vector<Term> terms) { return base::sorted_sum<IndexExpr>(std::move(terms)); }
IndexExpr operator+(const IndexExpr& a, const IndexExpr& b) { return base::sum(a, b); }
IndexExpr operator-(const IndexExpr& a, const IndexExpr& b) { return base::difference(a, b); }
IndexExpr operator*(const IndexExpr& a, const IndexExpr& b) { return base::product(a, b); }
int compare(const IndexExpr& a, const IndexExpr& b) { return base::order_of(a, b); }
bool operator==(const IndexExpr& a, const IndexExpr& b) { return base::order_of(a, b) == 0; }
std::optional<IndexExpr> IndexExpr::exact_div(const IndexExpr& d) const { return base::quotient(*this, d); }
int64_t IndexExpr::known_divisor() const { return base::common_divisor(*this); }
IndexExpr IndexExpr::substitute(const std::function<std::optional<IndexExpr>(SymbolId)>& map) const {
  return base::substituted(*this, map);
}
IndexExpr IndexExpr::substitute(const std::map<SymbolId, IndexExpr>& map) const {
  return base::substituted_by(*this, map);
}
std::optional<int64_t> IndexExpr::eval(const std::map<SymbolId, int64_t>& bindings) const {
  return base::evaluated(*this, bindings);
}
void IndexExpr::collect_symbols(std::set<SymbolId>& out) const { base::collect(*this, out); }
bool IndexExpr::uses(SymbolId symbol) const { return base::mentions(*this, symbol); }

IndexExpr index_expr(const Dim& d, const std::function<IndexExpr(const std::string&)>& symbol) {
  return base::replaced<IndexExpr>(d, [&](const Dim::Atom& atom) { return symbol(atom.name); });
}
Dim to_dim(const IndexExpr& e, const std::function<Dim(SymbolId)>& symbol) {
  return base::replaced<Dim>(e, [&](const IndexExpr::Atom& atom) { return symbol(atom.symbol); });
}

namespace {

// a against b as decimal text: 10 < 2.
std::strong_ordering compare_decimal(uint64_t a, uint64_t b) {
  const auto digits = [](uint64_t x) {
    int n = 1;
    while (x >= 10) x /= 10, ++n;
    return n;
  };
  const int of_a = digits(a), of_b = digits(b);
  for (int n = of_a; n < of_b; ++n) a *= 10;
  for (int n = of_b; n < of_a; ++n) b *= 10;
  return a != b ? a <=> b : of_a <=> of_b;
}

}  // namespace

std::strong_ordering SymbolId::compare_names(uint32_t a, uint32_t b) {
  const auto order = compare_decimal(a % kDerived, b % kDerived);
  return order != 0 ? order : a <=> b;
}

}  // namespace ir
}  // namespace fusec

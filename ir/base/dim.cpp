// SPDX-License-Identifier: Apache-2.0
// The polynomial part of Dim: canonical sums of products, their arithmetic, comparison, exact division, substitution
// and evaluation. Every result is canonical, so that equal polynomials have equal terms; overflow throws DimOverflow.

#include "fusec/dim.h"

#include <algorithm>

#include "ir/base/dim_internal.h"

namespace fusec {
namespace base {
namespace {

// Larger expressions are of no use; only hostile models reach these limits.
constexpr std::size_t kMaxTerms = 4096;
constexpr std::size_t kMaxDegree = 256;

bool term_less(const Dim::Term& a, const Dim::Term& b) { return compare_monomials(a.atoms, b.atoms) < 0; }
bool atom_less(const Dim::Atom& a, const Dim::Atom& b) { return compare_atoms(a, b) < 0; }

// Sorts terms whose atoms are sorted, adds equal monomials and drops zeros.
Terms combine(Terms terms) {
  std::sort(terms.begin(), terms.end(), term_less);
  Terms out;
  for (Dim::Term& t : terms) {
    if (!out.empty() && compare_monomials(out.back().atoms, t.atoms) == 0) {
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
Dim merge(const Dim& a, const Dim& b, int64_t sign) {
  const TermView x(a), y(b);
  Terms out;
  out.reserve(x.size() + y.size());
  std::size_t i = 0, j = 0;
  while (i < x.size() || j < y.size()) {
    const int order = i == x.size() ? 1 : j == y.size() ? -1 : compare_monomials(x[i].atoms, y[j].atoms);
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
  return DimAccess::make(std::move(out));
}

Dim scale(const Dim& a, int64_t factor) {
  if (factor == 0) return 0;
  if (factor == 1) return a;
  Terms out(TermView(a).begin(), TermView(a).end());
  for (Dim::Term& t : out) t.coefficient = mul(t.coefficient, factor);
  return DimAccess::make(std::move(out));
}

}  // namespace

int compare_atoms(const Dim::Atom& a, const Dim::Atom& b) {
  if (a.fn != b.fn) return a.fn < b.fn ? -1 : 1;
  if (a.fn == Dim::Fn::symbol) return a.name.compare(b.name);
  for (std::size_t i = 0; i < 2; ++i) {
    if (const int order = compare(a.args[i], b.args[i])) return order;
  }
  return 0;
}

int compare_monomials(const Atoms& a, const Atoms& b) {
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (const int order = compare_atoms(a[i], b[i])) return order;
  }
  return a.size() == b.size() ? 0 : a.size() < b.size() ? -1 : 1;
}

bool graded_less(const Atoms& a, const Atoms& b) {
  return a.size() != b.size() ? a.size() < b.size() : compare_monomials(a, b) < 0;
}

Dim of_atom(Dim::Atom atom) {
  Dim::Term term{1, {}};
  term.atoms.push_back(std::move(atom));
  return of_term(std::move(term));
}

Dim of_term(Dim::Term term) {
  if (term.coefficient == 0) return 0;
  Terms terms;
  terms.push_back(std::move(term));
  return DimAccess::make(std::move(terms));
}

const Dim::Atom* as_atom(const Dim& d) {
  const Terms* terms = DimAccess::shared(d);
  if (terms == nullptr || terms->size() != 1) return nullptr;
  const Dim::Term& t = terms->front();
  return t.coefficient == 1 && t.atoms.size() == 1 ? &t.atoms[0] : nullptr;
}

int64_t constant_term(const Dim& d) {
  const Terms* terms = DimAccess::shared(d);
  if (terms == nullptr) return d.value();
  return terms->front().atoms.empty() ? terms->front().coefficient : 0;
}

std::optional<Atoms> divide(const Atoms& a, const Atoms& b) {
  Atoms out;
  std::size_t j = 0;
  for (const Dim::Atom& atom : a) {
    if (j < b.size() && compare_atoms(atom, b[j]) == 0) {
      ++j;
    } else {
      out.push_back(atom);
    }
  }
  if (j != b.size()) return std::nullopt;
  return out;
}

Dim::Term common_factor(const Dim& a, const Dim& b) {
  Dim::Term common;
  bool first = true;
  for (const Dim* d : {&a, &b}) {
    const TermView terms(*d);
    for (const Dim::Term& t : terms) {
      common.coefficient = gcd(common.coefficient, t.coefficient);
      if (first) {
        std::copy_if(t.atoms.begin(), t.atoms.end(), std::back_inserter(common.atoms),
                     [](const Dim::Atom& x) { return x.fn == Dim::Fn::symbol; });
      } else {
        Atoms both;
        std::set_intersection(common.atoms.begin(), common.atoms.end(), t.atoms.begin(), t.atoms.end(),
                              std::back_inserter(both), atom_less);
        common.atoms = std::move(both);
      }
      first = false;
    }
  }
  return common;
}

}  // namespace base

using base::Terms;
using base::TermView;

Dim DimAccess::make(std::vector<Dim::Term> terms) {
  if (terms.empty()) return 0;
  if (terms.size() == 1 && terms[0].atoms.empty()) return terms[0].coefficient;
  if (terms.size() > base::kMaxTerms) throw DimOverflow();
  Dim d;
  d.terms_ = std::make_shared<const Terms>(std::move(terms));
  return d;
}

Dim Dim::symbol(std::string name) { return base::of_atom({Fn::symbol, std::move(name), {}}); }

std::optional<std::string> Dim::as_symbol() const {
  const Atom* atom = base::as_atom(*this);
  if (atom == nullptr || atom->fn != Fn::symbol) return std::nullopt;
  return atom->name;
}

std::vector<Dim::Term> Dim::terms() const {
  const TermView view(*this);
  return {view.begin(), view.end()};
}

Dim Dim::from_terms(std::vector<Term> terms) {
  for (Term& t : terms) std::sort(t.atoms.begin(), t.atoms.end(), base::atom_less);
  return DimAccess::make(base::combine(std::move(terms)));
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) return base::add(a.value_, b.value_);
  if (a.is(0)) return b;
  if (b.is(0)) return a;
  return base::merge(a, b, 1);
}

Dim operator-(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) return base::sub(a.value_, b.value_);
  if (b.is(0)) return a;
  return base::merge(a, b, -1);
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) return base::mul(a.value_, b.value_);
  if (a.is_const()) return base::scale(b, a.value_);
  if (b.is_const()) return base::scale(a, b.value_);
  if (a.terms_->size() * b.terms_->size() > base::kMaxTerms) throw DimOverflow();
  Terms out;
  out.reserve(a.terms_->size() * b.terms_->size());
  for (const Dim::Term& x : *a.terms_) {
    for (const Dim::Term& y : *b.terms_) {
      if (x.atoms.size() + y.atoms.size() > base::kMaxDegree) throw DimOverflow();
      Dim::Term t{base::mul(x.coefficient, y.coefficient), {}};
      t.atoms.reserve(x.atoms.size() + y.atoms.size());
      std::merge(x.atoms.begin(), x.atoms.end(), y.atoms.begin(), y.atoms.end(), std::back_inserter(t.atoms),
                 base::atom_less);
      out.push_back(std::move(t));
    }
  }
  return DimAccess::make(base::combine(std::move(out)));
}

int compare(const Dim& a, const Dim& b) {
  if (a.is_const() || b.is_const()) {
    if (a.is_const() != b.is_const()) return a.is_const() ? -1 : 1;
    return a.value_ == b.value_ ? 0 : a.value_ < b.value_ ? -1 : 1;
  }
  if (a.terms_ == b.terms_) return 0;
  const Terms &x = *a.terms_, &y = *b.terms_;
  for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (const int order = base::compare_monomials(x[i].atoms, y[i].atoms)) return order;
    if (x[i].coefficient != y[i].coefficient) return x[i].coefficient < y[i].coefficient ? -1 : 1;
  }
  return x.size() == y.size() ? 0 : x.size() < y.size() ? -1 : 1;
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.is_const() || b.is_const()) return a.is_const() == b.is_const() && a.value_ == b.value_;
  return compare(a, b) == 0;
}

std::optional<Dim> Dim::exact_div(const Dim& d) const {
  if (d.is(0)) return std::nullopt;
  if (is_const() && d.is_const()) {
    if (base::floor_mod(value_, d.value_) != 0) return std::nullopt;
    return base::floor_div(value_, d.value_);
  }
  // Long division by the greatest term of d.
  const auto less = [](const Term& a, const Term& b) { return base::graded_less(a.atoms, b.atoms); };
  const TermView divisor(d);
  const Term& lead = *std::max_element(divisor.begin(), divisor.end(), less);
  Dim rest = *this, quotient = 0;
  while (!rest.is(0)) {
    const TermView terms(rest);
    const Term& top = *std::max_element(terms.begin(), terms.end(), less);
    if (base::floor_mod(top.coefficient, lead.coefficient) != 0) return std::nullopt;
    std::optional<base::Atoms> atoms = base::divide(top.atoms, lead.atoms);
    if (!atoms) return std::nullopt;
    const Dim q = base::of_term({base::floor_div(top.coefficient, lead.coefficient), std::move(*atoms)});
    quotient += q;
    rest = rest - q * d;
  }
  return quotient;
}

namespace {

int64_t divisor_of(const Dim::Atom& atom) {
  switch (atom.fn) {
    case Dim::Fn::min:
    case Dim::Fn::max:
    case Dim::Fn::mod:
      return base::gcd(atom.args[0].known_divisor(), atom.args[1].known_divisor());
    default:
      return 1;
  }
}

// The product of two divisors, or only the first one if the product exceeds 64 bits.
int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? a : r;
}

}  // namespace

int64_t Dim::known_divisor() const {
  int64_t g = 0;
  for (const TermView view(*this); const Term& t : view) {
    int64_t d = base::gcd(t.coefficient, 0);
    for (const Atom& atom : t.atoms) d = saturating_mul(d, divisor_of(atom));
    g = base::gcd(g, d);
  }
  return g;
}

Dim Dim::substitute(const std::function<std::optional<Dim>(const std::string&)>& map) const {
  if (is_const()) return *this;
  Dim sum = 0;
  for (const Term& t : *terms_) {
    Dim product = t.coefficient;
    for (const Atom& atom : t.atoms) {
      if (atom.fn == Fn::symbol) {
        const std::optional<Dim> to = map(atom.name);
        product *= to ? *to : base::of_atom(atom);
      } else {
        product *= base::apply(atom.fn, atom.args[0].substitute(map), atom.args[1].substitute(map));
      }
    }
    sum += product;
  }
  return sum;
}

Dim Dim::substitute(const std::map<std::string, Dim>& map) const {
  return substitute([&](const std::string& name) -> std::optional<Dim> {
    const auto it = map.find(name);
    if (it == map.end()) return std::nullopt;
    return it->second;
  });
}

namespace {

std::optional<int64_t> eval_atom(const Dim::Atom& atom, const std::map<std::string, int64_t>& bindings) {
  if (atom.fn == Dim::Fn::symbol) {
    const auto it = bindings.find(atom.name);
    if (it == bindings.end()) return std::nullopt;
    return it->second;
  }
  const std::optional<int64_t> a = atom.args[0].eval(bindings), b = atom.args[1].eval(bindings);
  if (!a || !b) return std::nullopt;
  switch (atom.fn) {
    case Dim::Fn::min:
      return std::min(*a, *b);
    case Dim::Fn::max:
      return std::max(*a, *b);
    default:
      break;
  }
  if (*b <= 0) return std::nullopt;
  return atom.fn == Dim::Fn::floordiv ? base::floor_div(*a, *b) : base::floor_mod(*a, *b);
}

}  // namespace

std::optional<int64_t> Dim::eval(const std::map<std::string, int64_t>& bindings) const {
  if (is_const()) return value_;
  int64_t sum = 0;
  for (const Term& t : *terms_) {
    int64_t product = t.coefficient;
    for (const Atom& atom : t.atoms) {
      const std::optional<int64_t> v = eval_atom(atom, bindings);
      if (!v) return std::nullopt;
      product = base::mul(product, *v);
    }
    sum = base::add(sum, product);
  }
  return sum;
}

void Dim::collect_symbols(std::set<std::string>& out) const {
  if (is_const()) return;
  for (const Term& t : *terms_) {
    for (const Atom& atom : t.atoms) {
      if (atom.fn == Fn::symbol) out.insert(atom.name);
      for (const Dim& arg : atom.args) arg.collect_symbols(out);
    }
  }
}

bool Dim::uses(const std::string& symbol) const {
  if (is_const()) return false;
  for (const Term& t : *terms_) {
    for (const Atom& atom : t.atoms) {
      if (atom.fn == Fn::symbol && atom.name == symbol) return true;
      for (const Dim& arg : atom.args) {
        if (arg.uses(symbol)) return true;
      }
    }
  }
  return false;
}

}  // namespace fusec

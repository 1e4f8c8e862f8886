// SPDX-License-Identifier: Apache-2.0
// Derives bounds of Dims and IndexExprs from ranges of symbols, for simplification, verification and code generation.
// The search is sound but incomplete, and a budget per query bounds its time.

#include "ir/base/dim_range.h"

#include <algorithm>

namespace fusec {
namespace base {
namespace {

constexpr int kBudget = 600;   // replacements per query
constexpr int kMaxDepth = 40;  // of nested replacements

// a = slope * atom + rest; nullopt if a is not linear in the atom.
template <class E>
struct Linear {
  E slope, rest;
};
template <class E>
std::optional<Linear<E>> linear_in(const E& a, const Atom<E>& atom) {
  Linear<E> out;
  Terms<E> rest;  // stay canonical
  for (const TermView<E> view(a); const Term<E>& t : view) {
    const auto n = std::count(t.atoms.begin(), t.atoms.end(), atom);
    if (n > 1) return std::nullopt;
    if (n == 0) {
      rest.push_back(t);
      continue;
    }
    Term<E> factor = t;
    factor.atoms.erase(std::find(factor.atoms.begin(), factor.atoms.end(), atom));
    out.slope += of_term<E>(std::move(factor));
  }
  out.rest = DimAccess::make<E>(std::move(rest));
  return out;
}

template <class E>
const Atom<E>* first_function(const E& a) {
  const Terms<E>* terms = DimAccess::shared(a);
  if (terms == nullptr) return nullptr;
  for (const Term<E>& t : *terms) {
    for (const Atom<E>& atom : t.atoms) {
      if (atom.fn != Fn::symbol) return &atom;
    }
  }
  return nullptr;
}

std::optional<int64_t> worse(std::optional<int64_t> a, std::optional<int64_t> b) {
  if (!a || !b) return std::nullopt;
  return std::min(*a, *b);
}
std::optional<int64_t> better(std::optional<int64_t> a, std::optional<int64_t> b) {
  if (!a || !b) return a ? a : b;
  return std::max(*a, *b);
}

}  // namespace

template <class E>
void Prover<E>::start_query() {
  budget_ = kBudget;
  depth_ = 0;  // an overflow may have aborted the last query at any depth
}

template <class E>
std::optional<int64_t> Prover<E>::lower_bound(const E& a) {
  start_query();
  try {
    return lower(a, INT64_MAX);
  } catch (const DimOverflow&) {
    return std::nullopt;
  }
}

template <class E>
std::optional<int64_t> Prover<E>::upper_bound(const E& a) {
  start_query();
  try {
    const std::optional<int64_t> bound = lower(-a, INT64_MAX);
    if (!bound) return std::nullopt;
    return sub(0, *bound);
  } catch (const DimOverflow&) {
    return std::nullopt;
  }
}

template <class E>
bool Prover<E>::nonneg(const E& a) {
  if (a.is_const()) return a.value() >= 0;
  start_query();
  try {
    const std::optional<int64_t> bound = lower(a, 0);
    return bound && *bound >= 0;
  } catch (const DimOverflow&) {
    return false;
  }
}

template <class E>
const Range<E>* Prover<E>::range(const Atom<E>& atom) const {
  const auto it = ranges_.find(symbol_of(atom));
  return it == ranges_.end() ? nullptr : &it->second;
}

// A ranged symbol of `a` that occurs neither in a bound of another ranged symbol of `a` nor in a function in `a`.
template <class E>
const Atom<E>* Prover<E>::next_symbol(const E& a) const {
  const Terms<E>* terms = DimAccess::shared(a);
  if (terms == nullptr) return nullptr;
  std::vector<const Atom<E>*> ranged, functions;
  for (const Term<E>& t : *terms) {
    for (const Atom<E>& atom : t.atoms) {
      if (atom.fn != Fn::symbol) functions.push_back(&atom);
      if (atom.fn == Fn::symbol && range(atom) != nullptr) ranged.push_back(&atom);
    }
  }
  const auto bounds_other = [&](const Atom<E>* s) {
    return std::any_of(ranged.begin(), ranged.end(), [&](const Atom<E>* other) {
      if (symbol_of(*other) == symbol_of(*s)) return false;
      const Range<E>* r = range(*other);
      return (r->lo && r->lo->uses(symbol_of(*s))) || (r->hi && r->hi->uses(symbol_of(*s)));
    });
  };
  const auto in_function = [&](const Atom<E>* s) {
    return std::any_of(functions.begin(), functions.end(), [&](const Atom<E>* f) {
      return f->args[0].uses(symbol_of(*s)) || f->args[1].uses(symbol_of(*s));
    });
  };
  const auto it =
      std::find_if(ranged.begin(), ranged.end(), [&](const Atom<E>* s) { return !bounds_other(s) && !in_function(s); });
  return it == ranged.end() ? nullptr : *it;
}

template <class E>
std::optional<int64_t> Prover<E>::lower(const E& a, int64_t goal) {
  if (a.is_const()) return a.value();
  if (--budget_ < 0 || depth_ >= kMaxDepth) return std::nullopt;
  ++depth_;
  std::optional<int64_t> bound;
  if (const Atom<E>* symbol = next_symbol(a)) {
    bound = lower_by_symbol(a, *symbol, goal);
  } else if (const Atom<E>* fn = first_function(a)) {
    bound = lower_by_atom(a, *fn, goal);
  } else {
    bound = lower_by_terms(a);
  }
  --depth_;
  return bound;
}

template <class E>
typename Prover<E>::Sign Prover<E>::sign(const E& a) {
  if (a.is_const()) return a.value() >= 0 ? Sign::positive : Sign::negative;
  std::optional<int64_t> bound = lower(a, 0);
  if (bound && *bound >= 0) return Sign::positive;
  bound = lower(-a, 0);
  return bound && *bound >= 0 ? Sign::negative : Sign::unknown;
}

// The bound of slope * atom + rest after replacing the atom: (slope * numerator + scale * rest) / scale, rounded up.
template <class E>
std::optional<int64_t> Prover<E>::lower_with(const E& slope, const E& rest, const Bound& bound, int64_t goal) {
  if (bound.scale.is(1)) return lower(slope * bound.numerator + rest, goal);
  if (const std::optional<E> q = slope.exact_div(bound.scale)) return lower(*q * bound.numerator + rest, goal);
  if (!bound.scale.is_const()) return std::nullopt;
  const int64_t g = gcd(slope.known_divisor(), bound.scale.value()), scale = bound.scale.value() / g;
  const std::optional<E> reduced = slope.exact_div(g);
  if (!reduced) return std::nullopt;
  const int64_t scaled_goal = goal == INT64_MAX ? goal : mul(goal, scale);
  const std::optional<int64_t> b = lower(*reduced * bound.numerator + scale * rest, scaled_goal);
  if (!b) return std::nullopt;
  return sub(0, floor_div(sub(0, *b), scale));
}

template <class E>
std::optional<int64_t> Prover<E>::lower_by_atom(const E& a, const Atom<E>& atom, int64_t goal) {
  const std::optional<Linear<E>> linear = linear_in(a, atom);
  if (!linear) return lower_by_terms(a);
  const auto& [slope, rest] = *linear;
  const Sign s = sign(slope);
  const bool extremum = atom.fn == Fn::min || atom.fn == Fn::max;
  if (extremum && (s == Sign::unknown || (s == Sign::positive) == (atom.fn == Fn::min))) {
    // The atom equals one of its operands, so the worse of both cases is the bound.
    const std::optional<int64_t> first = lower(slope * atom.args[0] + rest, goal);
    if (!first) return std::nullopt;
    return worse(first, lower(slope * atom.args[1] + rest, goal));
  }
  if (s == Sign::unknown) {
    // The expression is linear in the atom, so its minimum is at one end.
    const std::vector<Bound> lo = bounds(atom, false), hi = bounds(atom, true);
    if (lo.empty() || hi.empty()) return std::nullopt;
    return worse(lower_with(slope, rest, lo.front(), goal), lower_with(slope, rest, hi.front(), goal));
  }
  std::optional<int64_t> best;
  for (const Bound& bound : bounds(atom, s == Sign::negative)) {
    best = better(best, lower_with(slope, rest, bound, goal));
    if (best && *best >= goal) break;
  }
  return best;
}

template <class E>
std::vector<typename Prover<E>::Bound> Prover<E>::bounds(const Atom<E>& atom, bool upper) {
  const E &x = atom.args[0], &y = atom.args[1];
  switch (atom.fn) {
    case Fn::floordiv:
      return floordiv_bounds(x, y, upper);
    case Fn::mod: {
      if (!upper) return {{0, 1}};
      std::vector<Bound> out = {{y - 1, 1}};
      if (sign(x) == Sign::positive) out.push_back({x, 1});  // mod(x, y) <= x for x >= 0
      return out;
    }
    default:
      return {{x, 1}, {y, 1}};  // max >= both, min <= both; the other bounds are found by cases
  }
}

// x / k - (k - 1) / k <= floordiv(x, k) <= x / k, and floordiv is monotone in x.
template <class E>
std::vector<typename Prover<E>::Bound> Prover<E>::floordiv_bounds(const E& x, const E& k, bool upper) {
  std::vector<Bound> out;
  if (const std::optional<E> relaxed = relax(x, upper)) out.push_back({floordiv(*relaxed, k), 1});
  out.push_back({upper ? x : x - k + 1, k});
  const std::optional<int64_t> bound = lower(upper ? -x : x, INT64_MAX);
  if (bound && k.is_const()) out.push_back({floor_div(upper ? sub(0, *bound) : *bound, k.value()), 1});
  if (k.is_const()) return out;
  // A symbolic k is at least 1: min(x, 0) <= floordiv(x, k) <= max(x, -1).
  if (bound) out.push_back({upper ? std::max<int64_t>(sub(0, *bound), -1) : std::min<int64_t>(*bound, 0), 1});
  if (upper && sign(x) == Sign::positive) out.push_back({x, 1});
  return out;
}

// x with one ranged symbol replaced by its bound, if x is monotone in it.
template <class E>
std::optional<E> Prover<E>::relax(const E& x, bool upper) {
  if (first_function(x) != nullptr) return std::nullopt;
  const Atom<E>* symbol = next_symbol(x);
  if (symbol == nullptr) return std::nullopt;
  const std::optional<Linear<E>> linear = linear_in(x, *symbol);
  if (!linear) return std::nullopt;
  const Sign s = sign(linear->slope);
  if (s == Sign::unknown) return std::nullopt;
  const Range<E>* r = range(*symbol);
  const std::optional<E>& bound = (s == Sign::positive) == upper ? r->hi : r->lo;
  if (!bound) return std::nullopt;
  return linear->slope * *bound + linear->rest;
}

template <class E>
std::optional<int64_t> Prover<E>::lower_by_symbol(const E& a, const Atom<E>& atom, int64_t goal) {
  const Range<E>* r = range(atom);
  const std::optional<Linear<E>> linear = linear_in(a, atom);
  if (!linear) return lower_by_terms(a);
  const Sign s = sign(linear->slope);
  const auto at = [&](const std::optional<E>& bound) -> std::optional<int64_t> {
    if (!bound) return std::nullopt;
    return lower(linear->slope * *bound + linear->rest, goal);
  };
  if (s == Sign::positive) return at(r->lo);
  if (s == Sign::negative) return at(r->hi);
  return worse(at(r->lo), at(r->hi));
}

template <class E>
bool Prover<E>::atom_nonneg(const Atom<E>& atom) {
  const auto nonneg = [this](const E& d) {
    const std::optional<int64_t> bound = lower(d, 0);
    return bound && *bound >= 0;
  };
  switch (atom.fn) {
    case Fn::symbol: {
      const Range<E>* r = range(atom);
      return r == nullptr || (r->lo && nonneg(*r->lo));
    }
    case Fn::floordiv:
      return nonneg(atom.args[0]);
    case Fn::mod:
      return true;
    case Fn::min:
      return nonneg(atom.args[0]) && nonneg(atom.args[1]);
    case Fn::max:
      return nonneg(atom.args[0]) || nonneg(atom.args[1]);
  }
  return false;
}

// The constant term, if all other terms are products of nonnegative atoms with positive coefficients.
template <class E>
std::optional<int64_t> Prover<E>::lower_by_terms(const E& a) {
  for (const TermView<E> view(a); const Term<E>& t : view) {
    if (t.atoms.empty()) continue;
    if (t.coefficient < 0) return std::nullopt;
    for (const Atom<E>& atom : t.atoms) {
      if (!atom_nonneg(atom)) return std::nullopt;
    }
  }
  return constant_term(a);
}

template class Prover<Dim>;
template class Prover<ir::IndexExpr>;

}  // namespace base

bool proves_nonneg(const Dim& a, const DimRanges& ranges) { return base::Prover<Dim>(ranges).nonneg(a); }
std::optional<int64_t> lower_bound(const Dim& a, const DimRanges& ranges) {
  return base::Prover<Dim>(ranges).lower_bound(a);
}
std::optional<int64_t> upper_bound(const Dim& a, const DimRanges& ranges) {
  return base::Prover<Dim>(ranges).upper_bound(a);
}

namespace ir {

bool proves_nonneg(const IndexExpr& a, const IndexRanges& ranges) { return base::Prover<IndexExpr>(ranges).nonneg(a); }
std::optional<int64_t> lower_bound(const IndexExpr& a, const IndexRanges& ranges) {
  return base::Prover<IndexExpr>(ranges).lower_bound(a);
}
std::optional<int64_t> upper_bound(const IndexExpr& a, const IndexRanges& ranges) {
  return base::Prover<IndexExpr>(ranges).upper_bound(a);
}

}  // namespace ir
}  // namespace fusec

// SPDX-License-Identifier: Apache-2.0
// Derives bounds of Dims from ranges of symbols, for simplification, verification and code generation. The search is
// sound but incomplete, and a budget per query bounds its time.

#include "ir/base/dim_range.h"

#include <algorithm>

namespace fusec {
namespace base {
namespace {

using Fn = Dim::Fn;

constexpr int kBudget = 600;   // replacements per query
constexpr int kMaxDepth = 40;  // of nested replacements

// a = slope * atom + rest; nullopt if a is not linear in the atom.
struct Linear {
  Dim slope, rest;
};
std::optional<Linear> linear_in(const Dim& a, const Dim::Atom& atom) {
  Linear out;
  for (const TermView view(a); const Dim::Term& t : view) {
    const auto n = std::count(t.atoms.begin(), t.atoms.end(), atom);
    if (n > 1) return std::nullopt;
    if (n == 0) {
      out.rest += of_term(t);
      continue;
    }
    Dim::Term factor = t;
    factor.atoms.erase(std::find(factor.atoms.begin(), factor.atoms.end(), atom));
    out.slope += of_term(std::move(factor));
  }
  return out;
}

const Dim::Atom* first_function(const Dim& a) {
  const Terms* terms = DimAccess::shared(a);
  if (terms == nullptr) return nullptr;
  for (const Dim::Term& t : *terms) {
    for (const Dim::Atom& atom : t.atoms) {
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

void Prover::start_query() {
  budget_ = kBudget;
  depth_ = 0;  // an overflow may have aborted the last query at any depth
}

std::optional<int64_t> Prover::lower_bound(const Dim& a) {
  start_query();
  try {
    return lower(a, INT64_MAX);
  } catch (const DimOverflow&) {
    return std::nullopt;
  }
}

std::optional<int64_t> Prover::upper_bound(const Dim& a) {
  start_query();
  try {
    const std::optional<int64_t> bound = lower(-a, INT64_MAX);
    if (!bound) return std::nullopt;
    return sub(0, *bound);
  } catch (const DimOverflow&) {
    return std::nullopt;
  }
}

bool Prover::nonneg(const Dim& a) {
  if (a.is_const()) return a.value() >= 0;
  start_query();
  try {
    const std::optional<int64_t> bound = lower(a, 0);
    return bound && *bound >= 0;
  } catch (const DimOverflow&) {
    return false;
  }
}

const DimRange* Prover::range(const Dim::Atom& atom) const {
  const auto it = ranges_.find(atom.name);
  return it == ranges_.end() ? nullptr : &it->second;
}

// A ranged symbol of `a` that occurs neither in a bound of another ranged symbol of `a` nor in a function in `a`.
const Dim::Atom* Prover::next_symbol(const Dim& a) const {
  const Terms* terms = DimAccess::shared(a);
  if (terms == nullptr) return nullptr;
  std::vector<const Dim::Atom*> ranged, functions;
  for (const Dim::Term& t : *terms) {
    for (const Dim::Atom& atom : t.atoms) {
      if (atom.fn != Fn::symbol) functions.push_back(&atom);
      if (atom.fn == Fn::symbol && range(atom) != nullptr) ranged.push_back(&atom);
    }
  }
  const auto bounds_other = [&](const Dim::Atom* s) {
    return std::any_of(ranged.begin(), ranged.end(), [&](const Dim::Atom* other) {
      if (other->name == s->name) return false;
      const DimRange* r = range(*other);
      return (r->lo && r->lo->uses(s->name)) || (r->hi && r->hi->uses(s->name));
    });
  };
  const auto in_function = [&](const Dim::Atom* s) {
    return std::any_of(functions.begin(), functions.end(),
                       [&](const Dim::Atom* f) { return f->args[0].uses(s->name) || f->args[1].uses(s->name); });
  };
  const auto it = std::find_if(ranged.begin(), ranged.end(),
                               [&](const Dim::Atom* s) { return !bounds_other(s) && !in_function(s); });
  return it == ranged.end() ? nullptr : *it;
}

std::optional<int64_t> Prover::lower(const Dim& a, int64_t goal) {
  if (a.is_const()) return a.value();
  if (--budget_ < 0 || depth_ >= kMaxDepth) return std::nullopt;
  ++depth_;
  std::optional<int64_t> bound;
  if (const Dim::Atom* symbol = next_symbol(a)) {
    bound = lower_by_symbol(a, *symbol, goal);
  } else if (const Dim::Atom* fn = first_function(a)) {
    bound = lower_by_atom(a, *fn, goal);
  } else {
    bound = lower_by_terms(a);
  }
  --depth_;
  return bound;
}

Prover::Sign Prover::sign(const Dim& a) {
  if (a.is_const()) return a.value() >= 0 ? Sign::positive : Sign::negative;
  std::optional<int64_t> bound = lower(a, 0);
  if (bound && *bound >= 0) return Sign::positive;
  bound = lower(-a, 0);
  return bound && *bound >= 0 ? Sign::negative : Sign::unknown;
}

// The bound of slope * atom + rest after replacing the atom: (slope * numerator + scale * rest) / scale, rounded up.
std::optional<int64_t> Prover::lower_with(const Dim& slope, const Dim& rest, const Bound& bound, int64_t goal) {
  if (bound.scale.is(1)) return lower(slope * bound.numerator + rest, goal);
  if (const std::optional<Dim> q = slope.exact_div(bound.scale)) return lower(*q * bound.numerator + rest, goal);
  if (!bound.scale.is_const()) return std::nullopt;
  const int64_t g = gcd(slope.known_divisor(), bound.scale.value()), scale = bound.scale.value() / g;
  const std::optional<Dim> reduced = slope.exact_div(g);
  if (!reduced) return std::nullopt;
  const int64_t scaled_goal = goal == INT64_MAX ? goal : mul(goal, scale);
  const std::optional<int64_t> b = lower(*reduced * bound.numerator + scale * rest, scaled_goal);
  if (!b) return std::nullopt;
  return sub(0, floor_div(sub(0, *b), scale));
}

std::optional<int64_t> Prover::lower_by_atom(const Dim& a, const Dim::Atom& atom, int64_t goal) {
  const std::optional<Linear> linear = linear_in(a, atom);
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

std::vector<Prover::Bound> Prover::bounds(const Dim::Atom& atom, bool upper) {
  const Dim &x = atom.args[0], &y = atom.args[1];
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
std::vector<Prover::Bound> Prover::floordiv_bounds(const Dim& x, const Dim& k, bool upper) {
  std::vector<Bound> out;
  if (const std::optional<Dim> relaxed = relax(x, upper)) out.push_back({floordiv(*relaxed, k), 1});
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
std::optional<Dim> Prover::relax(const Dim& x, bool upper) {
  if (first_function(x) != nullptr) return std::nullopt;
  const Dim::Atom* symbol = next_symbol(x);
  if (symbol == nullptr) return std::nullopt;
  const std::optional<Linear> linear = linear_in(x, *symbol);
  if (!linear) return std::nullopt;
  const Sign s = sign(linear->slope);
  if (s == Sign::unknown) return std::nullopt;
  const DimRange* r = range(*symbol);
  const std::optional<Dim>& bound = (s == Sign::positive) == upper ? r->hi : r->lo;
  if (!bound) return std::nullopt;
  return linear->slope * *bound + linear->rest;
}

std::optional<int64_t> Prover::lower_by_symbol(const Dim& a, const Dim::Atom& atom, int64_t goal) {
  const DimRange* r = range(atom);
  const std::optional<Linear> linear = linear_in(a, atom);
  if (!linear) return lower_by_terms(a);
  const Sign s = sign(linear->slope);
  const auto at = [&](const std::optional<Dim>& bound) -> std::optional<int64_t> {
    if (!bound) return std::nullopt;
    return lower(linear->slope * *bound + linear->rest, goal);
  };
  if (s == Sign::positive) return at(r->lo);
  if (s == Sign::negative) return at(r->hi);
  return worse(at(r->lo), at(r->hi));
}

bool Prover::atom_nonneg(const Dim::Atom& atom) {
  const auto nonneg = [this](const Dim& d) {
    const std::optional<int64_t> bound = lower(d, 0);
    return bound && *bound >= 0;
  };
  switch (atom.fn) {
    case Fn::symbol: {
      const DimRange* r = range(atom);
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
std::optional<int64_t> Prover::lower_by_terms(const Dim& a) {
  for (const TermView view(a); const Dim::Term& t : view) {
    if (t.atoms.empty()) continue;
    if (t.coefficient < 0) return std::nullopt;
    for (const Dim::Atom& atom : t.atoms) {
      if (!atom_nonneg(atom)) return std::nullopt;
    }
  }
  return constant_term(a);
}

}  // namespace base

bool proves_nonneg(const Dim& a, const DimRanges& ranges) { return base::Prover(ranges).nonneg(a); }

std::optional<int64_t> lower_bound(const Dim& a, const DimRanges& ranges) {
  return base::Prover(ranges).lower_bound(a);
}

std::optional<int64_t> upper_bound(const Dim& a, const DimRanges& ranges) {
  return base::Prover(ranges).upper_bound(a);
}

}  // namespace fusec

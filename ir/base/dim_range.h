// SPDX-License-Identifier: Apache-2.0
// The values that dims can have, and what follows from them. Ranges bound a dim by the ranges of its symbols; the
// simplifier rewrites a dim by such ranges into an equal, shorter one.
#pragma once

#include <map>
#include <optional>

#include "ir/base/dim_internal.h"

namespace fusec::base {

// Bounds an expression from below. It replaces one atom after another by a bound of the atom, chosen by the sign of its
// coefficient, until only symbols without ranges (at least 0) and constants remain. Sound, not complete; the work per
// query is bounded.
template <class E>
class Prover {
 public:
  explicit Prover(const Ranges<E>& ranges) : ranges_(ranges) {}

  std::optional<int64_t> lower_bound(const E& a);  // the best bound found
  std::optional<int64_t> upper_bound(const E& a);
  bool nonneg(const E& a);
  bool within(const E& a, const E& extent) { return nonneg(a) && nonneg(extent - 1 - a); }  // 0 <= a < extent

 private:
  enum class Sign { negative, positive, unknown };
  // A bound `numerator / scale` of an atom; scale > 0.
  struct Bound {
    E numerator, scale;
  };

  void start_query();
  std::optional<int64_t> lower(const E& a, int64_t goal);  // may stop at any bound >= `goal`
  std::optional<int64_t> lower_by_atom(const E& a, const Atom<E>& atom, int64_t goal);
  std::optional<int64_t> lower_by_symbol(const E& a, const Atom<E>& atom, int64_t goal);
  std::optional<int64_t> lower_by_terms(const E& a);
  std::optional<int64_t> lower_with(const E& slope, const E& rest, const Bound& bound, int64_t goal);
  Sign sign(const E& a);
  bool atom_nonneg(const Atom<E>& atom);
  std::vector<Bound> bounds(const Atom<E>& atom, bool upper);
  std::vector<Bound> floordiv_bounds(const E& x, const E& k, bool upper);
  const Range<E>* range(const Atom<E>& atom) const;
  const Atom<E>* next_symbol(const E& a) const;
  std::optional<E> relax(const E& x, bool upper);

  const Ranges<E>& ranges_;
  int budget_ = 0;
  int depth_ = 0;
};

template <class E>
class Simplifier {
 public:
  explicit Simplifier(const Ranges<E>& ranges) : prover_(ranges) {}  // `ranges` must outlive it and must not change
  Simplifier(const Simplifier&) = delete;
  Simplifier& operator=(const Simplifier&) = delete;

  E simplify(const E& a);
  bool nonneg(const E& a);

 private:
  struct AtomLess {
    bool operator()(const Atom<E>& a, const Atom<E>& b) const { return compare_atoms(a, b) < 0; }
  };
  using AtomValues = std::map<Atom<E>, E, AtomLess>;

  E run(const E& a);
  E of(const Atom<E>& atom);
  E of_function(const Atom<E>& atom);
  std::optional<Split<E>> divide_in_range(const E& x, const E& k);
  std::optional<E> divide_common(Fn fn, const E& x, const E& k);
  E extremum(Fn fn, const E& x, const E& y);
  E join_splits(E sum);
  std::optional<E> joined(const E& sum, const Term<E>& t, std::size_t i);
  const E& get_zero(const Atom<E>& atom);  // x - mod(x, k) - k*floordiv(x, k) for a mod or floordiv atom

  Prover<E> prover_;
  std::map<E, E> simplified_;
  std::map<E, bool> nonneg_;
  AtomValues atoms_, zeros_;
};

}  // namespace fusec::base

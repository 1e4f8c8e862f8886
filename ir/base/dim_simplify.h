// SPDX-License-Identifier: Apache-2.0
// simplify and proves_nonneg for many expressions under the same ranges, with shared memoization. The accesses of an
// unrolled window are sums of the same floordiv and mod terms, which are expensive to decide.
#pragma once

#include <map>
#include <optional>

#include "ir/base/dim_range.h"

namespace fusec::base {

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

// SPDX-License-Identifier: Apache-2.0
// simplify and proves_nonneg for many Dims under the same ranges, with shared memoization. The accesses of an unrolled
// window are sums of the same floordiv and mod terms, which are expensive to decide.
#pragma once

#include <map>
#include <optional>

#include "ir/base/dim_range.h"

namespace fusec::base {

class Simplifier {
 public:
  explicit Simplifier(const DimRanges& ranges) : prover_(ranges) {}  // `ranges` must outlive it and must not change
  Simplifier(const Simplifier&) = delete;
  Simplifier& operator=(const Simplifier&) = delete;

  Dim simplify(const Dim& a);
  bool nonneg(const Dim& a);

 private:
  struct AtomLess {
    bool operator()(const Dim::Atom& a, const Dim::Atom& b) const { return compare_atoms(a, b) < 0; }
  };
  using Atoms = std::map<Dim::Atom, Dim, AtomLess>;

  Dim run(const Dim& a);
  Dim of(const Dim::Atom& atom);
  Dim of_function(const Dim::Atom& atom);
  std::optional<Split> divide_in_range(const Dim& x, const Dim& k);
  std::optional<Dim> divide_common(Dim::Fn fn, const Dim& x, const Dim& k);
  Dim extremum(Dim::Fn fn, const Dim& x, const Dim& y);
  Dim join_splits(Dim sum);
  std::optional<Dim> joined(const Dim& sum, const Dim::Term& t, std::size_t i);
  const Dim& zero_of(const Dim::Atom& atom);  // x - mod(x, k) - k*floordiv(x, k) for a mod or floordiv atom

  Prover prover_;
  std::map<Dim, Dim> simplified_;
  std::map<Dim, bool> nonneg_;
  Atoms atoms_, zeros_;
};

}  // namespace fusec::base

// SPDX-License-Identifier: Apache-2.0
// Bounds of Dims from ranges of symbols.
#pragma once

#include <optional>

#include "ir/base/dim_internal.h"

namespace fusec::base {

// Bounds an expression from below. It replaces one atom after another by a bound of the atom, chosen by the sign of its
// coefficient, until only symbols without ranges (at least 0) and constants remain. Sound, not complete; the work per
// query is bounded.
class Prover {
 public:
  explicit Prover(const DimRanges& ranges) : ranges_(ranges) {}

  std::optional<int64_t> lower_bound(const Dim& a);  // the best bound found
  std::optional<int64_t> upper_bound(const Dim& a);
  bool nonneg(const Dim& a);
  bool within(const Dim& a, const Dim& extent) { return nonneg(a) && nonneg(extent - 1 - a); }  // 0 <= a < extent

 private:
  enum class Sign { negative, positive, unknown };
  // A bound `numerator / scale` of an atom; scale > 0.
  struct Bound {
    Dim numerator, scale;
  };

  void start_query();
  std::optional<int64_t> lower(const Dim& a, int64_t goal);  // may stop at any bound >= `goal`
  std::optional<int64_t> lower_by_atom(const Dim& a, const Dim::Atom& atom, int64_t goal);
  std::optional<int64_t> lower_by_symbol(const Dim& a, const Dim::Atom& atom, int64_t goal);
  std::optional<int64_t> lower_by_terms(const Dim& a);
  std::optional<int64_t> lower_with(const Dim& slope, const Dim& rest, const Bound& bound, int64_t goal);
  Sign sign(const Dim& a);
  bool atom_nonneg(const Dim::Atom& atom);
  std::vector<Bound> bounds(const Dim::Atom& atom, bool upper);
  std::vector<Bound> floordiv_bounds(const Dim& x, const Dim& k, bool upper);
  const DimRange* range(const Dim::Atom& atom) const;
  const Dim::Atom* next_symbol(const Dim& a) const;
  std::optional<Dim> relax(const Dim& x, bool upper);

  const DimRanges& ranges_;
  int budget_ = 0;
  int depth_ = 0;
};

}  // namespace fusec::base

// SPDX-License-Identifier: Apache-2.0
// Shared by the files of Dim: checked arithmetic, comparison of terms, and access to terms without a copy.
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fusec/dim.h"

namespace fusec {

struct DimAccess {
  static const std::vector<Dim::Term>* shared(const Dim& d) { return d.terms_.get(); }
  // `terms` must be canonical: sorted, distinct, without zero coefficients.
  static Dim make(std::vector<Dim::Term> terms);
};

namespace base {

using Atoms = std::vector<Dim::Atom>;
using Terms = std::vector<Dim::Term>;

inline int64_t add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) throw DimOverflow();
  return r;
}
inline int64_t sub(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_sub_overflow(a, b, &r)) throw DimOverflow();
  return r;
}
inline int64_t mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) throw DimOverflow();
  return r;
}
// Rounds toward minus infinity. b != 0.
inline int64_t floor_div(int64_t a, int64_t b) {
  if (b == -1) return sub(0, a);
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
inline int64_t floor_mod(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
// The result is at least 0. 2^62 stands for 2^63, which only the smallest integer has as a divisor.
inline int64_t gcd(int64_t a, int64_t b) {
  const auto magnitude = [](int64_t v) {
    return v < 0 ? uint64_t{0} - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
  };
  const uint64_t g = std::gcd(magnitude(a), magnitude(b));
  return g > static_cast<uint64_t>(INT64_MAX) ? int64_t{1} << 62 : static_cast<int64_t>(g);
}

int compare_atoms(const Dim::Atom& a, const Dim::Atom& b);
int compare_monomials(const Atoms& a, const Atoms& b);  // lexicographic, a prefix first

// A graded order, in which multiplication preserves the order, as polynomial division requires.
bool graded_less(const Atoms& a, const Atoms& b);

// The terms of a Dim without a copy; `d` must outlive it.
class TermView {
 public:
  explicit TermView(const Dim& d) {
    if (const Terms* shared = DimAccess::shared(d)) {
      span_ = *shared;
    } else if (d.value() != 0) {
      constant_.coefficient = d.value();
      span_ = std::span<const Dim::Term>(&constant_, 1);
    }
  }
  TermView(const TermView&) = delete;
  TermView& operator=(const TermView&) = delete;
  auto begin() const { return span_.begin(); }
  auto end() const { return span_.end(); }
  std::size_t size() const { return span_.size(); }
  const Dim::Term& operator[](std::size_t i) const { return span_[i]; }

 private:
  Dim::Term constant_;
  std::span<const Dim::Term> span_;
};

Dim of_atom(Dim::Atom atom);
Dim of_term(Dim::Term term);                        // its atoms must be sorted
Dim apply(Dim::Fn fn, const Dim& a, const Dim& b);  // calls the public function for fn; not for symbol
const Dim::Atom* as_atom(const Dim& d);             // if d is a single atom, else null; valid as long as d
int64_t constant_term(const Dim& d);
std::optional<Atoms> divide(const Atoms& a, const Atoms& b);  // the multiset difference if b divides a

// a = multiple * b + rest. `multiple` takes the terms that b divides; if b is constant, it also takes the part of the
// constant term that b divides. b must be a single term.
struct Split {
  Dim multiple, rest;
};
Split split_multiples(const Dim& a, const Dim& b);

// The greatest product of a constant and symbols that divides every term of a and of b.
Dim::Term common_factor(const Dim& a, const Dim& b);

}  // namespace base

inline bool operator==(const Dim::Atom& a, const Dim::Atom& b) { return base::compare_atoms(a, b) == 0; }

}  // namespace fusec

// SPDX-License-Identifier: Apache-2.0
// Dim: an integer expression over constants and symbols. Extents of tensors, index expressions of kernels and sizes of
// buffers are all Dims.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "fusec/export.h"
#include "fusec/status.h"

namespace fusec {

// Thrown by Dim arithmetic past 64 bits; caught where hostile extents can come in (import, parse) and at the API.
class FUSEC_API DimOverflow : public std::overflow_error {
 public:
  DimOverflow() : std::overflow_error("extent arithmetic overflows 64 bits") {}
};

// Always in canonical form: a sum of terms, each an integer times a sorted product of atoms; an atom is a symbol or an
// application of floordiv, mod, min or max. So == on Dims that are equal as polynomials holds. Constants are held
// inline; other values are shared and immutable.
class FUSEC_API Dim {
 public:
  enum class Fn : uint8_t { symbol, floordiv, mod, min, max };
  struct Atom;
  struct Term;

  Dim(int64_t value = 0) : value_(value) {}  // NOLINT: implicit by design
  static Dim symbol(std::string name);

  bool is_const() const { return terms_ == nullptr; }
  int64_t value() const { return value_; }  // of a constant
  bool is(int64_t v) const { return is_const() && value_ == v; }
  std::optional<std::string> as_symbol() const;  // the name when this is just one symbol

  // The terms of the sum, sorted, the constant term first; one or no term for a constant.
  std::vector<Term> terms() const;
  static Dim from_terms(std::vector<Term> terms);

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  Dim operator-() const { return Dim(0) - *this; }
  Dim& operator+=(const Dim& b) { return *this = *this + b; }
  Dim& operator*=(const Dim& b) { return *this = *this * b; }
  friend bool operator==(const Dim& a, const Dim& b);
  // A total order for sorted containers; not the order of the values.
  friend int compare(const Dim& a, const Dim& b);
  friend bool operator<(const Dim& a, const Dim& b) { return compare(a, b) < 0; }

  // The quotient when every term of *this is a multiple of d as a polynomial; nullopt otherwise or for d == 0.
  std::optional<Dim> exact_div(const Dim& d) const;
  // The greatest known constant that divides every value (0 for the constant 0).
  int64_t known_divisor() const;

  // Replaces symbols; symbols for which `map` answers nullopt stay.
  Dim substitute(const std::function<std::optional<Dim>(const std::string&)>& map) const;
  Dim substitute(const std::map<std::string, Dim>& map) const;
  // The value under `bindings`; nullopt if a symbol is unbound or a divisor is not positive.
  std::optional<int64_t> eval(const std::map<std::string, int64_t>& bindings) const;
  void collect_symbols(std::set<std::string>& out) const;
  bool uses(const std::string& symbol) const;

  // "2*N*seq + floordiv(H + 1, 2)": symbols are printed as they are.
  std::string str() const;
  // Parses str()'s language, with parentheses and + - * allowed anywhere. Symbols match [A-Za-z_][A-Za-z0-9_.]*.
  static Result<Dim> parse(std::string_view text) noexcept;

 private:
  friend struct DimAccess;
  int64_t value_ = 0;
  std::shared_ptr<const std::vector<Term>> terms_;  // null for a constant
};

struct FUSEC_API Dim::Atom {
  Fn fn = Fn::symbol;
  std::string name;       // of a symbol
  std::vector<Dim> args;  // of a function; two of them
};
struct FUSEC_API Dim::Term {
  int64_t coefficient = 0;
  std::vector<Atom> atoms;  // sorted; repeated for powers; empty for the constant term
};

FUSEC_API Dim operator+(const Dim& a, const Dim& b);
FUSEC_API Dim operator-(const Dim& a, const Dim& b);
FUSEC_API Dim operator*(const Dim& a, const Dim& b);
FUSEC_API bool operator==(const Dim& a, const Dim& b);
FUSEC_API int compare(const Dim& a, const Dim& b);

// Rounding is toward minus infinity; b > 0 is assumed when b is symbolic. Division by the constant 0 throws
// DimOverflow.
FUSEC_API Dim floordiv(const Dim& a, const Dim& b);
FUSEC_API Dim mod(const Dim& a, const Dim& b);  // a - b * floordiv(a, b)
FUSEC_API Dim ceildiv(const Dim& a, const Dim& b);
FUSEC_API Dim min(const Dim& a, const Dim& b);
FUSEC_API Dim max(const Dim& a, const Dim& b);

// What is known of symbols: inclusive bounds that may themselves be Dims over other symbols. A symbol without an entry
// is an extent: at least 0.
struct FUSEC_API DimRange {
  std::optional<Dim> lo, hi;
};
using DimRanges = std::map<std::string, DimRange>;

// True only when a >= 0 is proven for all symbol values in range.
FUSEC_API bool proves_nonneg(const Dim& a, const DimRanges& ranges);
// Simplifies floordiv, mod, min and max that the ranges decide: floordiv(16*i + j, 16) with 0 <= j < 16 becomes i.
FUSEC_API Dim simplify(const Dim& a, const DimRanges& ranges);
// Constant bounds of a, where known.
FUSEC_API std::optional<int64_t> lower_bound(const Dim& a, const DimRanges& ranges);
FUSEC_API std::optional<int64_t> upper_bound(const Dim& a, const DimRanges& ranges);

}  // namespace fusec

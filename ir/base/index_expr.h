// SPDX-License-Identifier: Apache-2.0
// IndexExpr: an integer expression over what a kernel knows by number. It is to a kernel what Dim is to a model, with
// the same canonical form and arithmetic (ir/base/dim_internal.h), but its symbols are ids, so they need no names and
// cannot clash.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fusec/dim.h"
#include "ir/support/id_vector.h"

namespace fusec {
struct DimAccess;
}  // namespace fusec

namespace fusec::ir {

using ExtentId = Id<struct ExtentTag>;  // a launch argument of a kernel
using VarId = Id<struct VarTag>;        // a loop variable of a kernel
using RegId = Id<struct RegTag>;        // an SSA value of a kernel, printed v<index>

// thread: the thread of a block, in kernels whose loops over threads are gone. local: a value that a writer has named.
enum class SymbolKind : uint8_t { local, var, lane, extent, thread, reg };

// A symbol of a kernel. The order is that of the systematic names (c0, i0, i1, i10, i2, lane, n0, t, v0), which are
// those of canonical texts: so the terms of an expression stand in the order in which they are printed.
struct SymbolId {
  SymbolKind kind = SymbolKind::lane;
  uint32_t index = 0;

  constexpr SymbolId() = default;
  constexpr SymbolId(SymbolKind k, uint32_t i) : kind(k), index(i) {}
  constexpr SymbolId(VarId id) : kind(SymbolKind::var), index(id.index) {}        // NOLINT: implicit by design
  constexpr SymbolId(ExtentId id) : kind(SymbolKind::extent), index(id.index) {}  // NOLINT
  constexpr SymbolId(RegId id) : kind(SymbolKind::reg), index(id.index) {}        // NOLINT

  friend constexpr bool operator==(const SymbolId&, const SymbolId&) = default;
  friend std::strong_ordering operator<=>(const SymbolId& a, const SymbolId& b) {
    if (a.kind != b.kind) return a.kind <=> b.kind;
    if (a.index == b.index) return std::strong_ordering::equal;
    return a.index < 10 && b.index < 10 ? a.index <=> b.index : compare_names(a.index, b.index);
  }

  static std::strong_ordering compare_names(uint32_t a, uint32_t b);

  std::optional<VarId> var() const { return kind == SymbolKind::var ? std::optional(VarId{index}) : std::nullopt; }
  std::optional<RegId> reg() const { return kind == SymbolKind::reg ? std::optional(RegId{index}) : std::nullopt; }
  std::optional<ExtentId> extent() const {
    return kind == SymbolKind::extent ? std::optional(ExtentId{index}) : std::nullopt;
  }
};
// In the statement that defines a value of several lanes: the number of the lane.
inline constexpr SymbolId kLane{SymbolKind::lane, 0};
// The number of the thread in its block, in the lowered form of a kernel.
inline constexpr SymbolId kThread{SymbolKind::thread, 0};

// A symbol that a pass derives from one of the kernel, such as its copy in another iteration: n is 1 ... 15. It stands
// right behind it in the order.
inline constexpr uint32_t kDerived = 1u << 28;
constexpr SymbolId derived(SymbolId symbol, uint32_t n) { return {symbol.kind, symbol.index + n * kDerived}; }
constexpr VarId derived(VarId var, uint32_t n) { return {var.index + n * kDerived}; }

std::string systematic_name(SymbolId symbol);  // "i0", "lane", "n0", "t", "v0"

// The members are those of Dim.
class IndexExpr {
 public:
  using Fn = Dim::Fn;
  struct Atom;
  struct Term;

  IndexExpr(int64_t value = 0) : value_(value) {}  // NOLINT: implicit by design
  static IndexExpr symbol(SymbolId id);

  bool is_const() const { return terms_ == nullptr; }
  int64_t value() const { return value_; }
  bool is(int64_t v) const { return is_const() && value_ == v; }
  std::optional<SymbolId> as_symbol() const;

  std::vector<Term> terms() const;
  static IndexExpr from_terms(std::vector<Term> terms);

  friend IndexExpr operator+(const IndexExpr& a, const IndexExpr& b);
  friend IndexExpr operator-(const IndexExpr& a, const IndexExpr& b);
  friend IndexExpr operator*(const IndexExpr& a, const IndexExpr& b);
  IndexExpr operator-() const { return IndexExpr(0) - *this; }
  IndexExpr& operator+=(const IndexExpr& b) { return *this = *this + b; }
  IndexExpr& operator*=(const IndexExpr& b) { return *this = *this * b; }
  friend bool operator==(const IndexExpr& a, const IndexExpr& b);
  friend int compare(const IndexExpr& a, const IndexExpr& b);
  friend bool operator<(const IndexExpr& a, const IndexExpr& b) { return compare(a, b) < 0; }

  std::optional<IndexExpr> exact_div(const IndexExpr& d) const;
  int64_t known_divisor() const;

  IndexExpr substitute(const std::function<std::optional<IndexExpr>(SymbolId)>& map) const;
  IndexExpr substitute(const std::map<SymbolId, IndexExpr>& map) const;
  std::optional<int64_t> eval(const std::map<SymbolId, int64_t>& bindings) const;
  void collect_symbols(std::set<SymbolId>& out) const;
  bool uses(SymbolId symbol) const;

  std::string str() const;  // with systematic names

 private:
  friend struct fusec::DimAccess;
  int64_t value_ = 0;
  std::shared_ptr<const std::vector<Term>> terms_;  // null for a constant
};

struct IndexExpr::Atom {
  Fn fn = Fn::symbol;
  SymbolId symbol;              // of a symbol
  std::vector<IndexExpr> args;  // of a function; two of them
};
struct IndexExpr::Term {
  int64_t coefficient = 0;
  std::vector<Atom> atoms;
};

IndexExpr floordiv(const IndexExpr& a, const IndexExpr& b);
IndexExpr mod(const IndexExpr& a, const IndexExpr& b);
IndexExpr ceildiv(const IndexExpr& a, const IndexExpr& b);
IndexExpr min(const IndexExpr& a, const IndexExpr& b);
IndexExpr max(const IndexExpr& a, const IndexExpr& b);

struct IndexRange {
  std::optional<IndexExpr> lo, hi;
};
using IndexRanges = std::map<SymbolId, IndexRange>;

bool proves_nonneg(const IndexExpr& a, const IndexRanges& ranges);
IndexExpr simplify(const IndexExpr& a, const IndexRanges& ranges);
std::optional<int64_t> lower_bound(const IndexExpr& a, const IndexRanges& ranges);
std::optional<int64_t> upper_bound(const IndexExpr& a, const IndexRanges& ranges);

// The shape of a buffer in a kernel.
using IndexShape = std::vector<IndexExpr>;
bool is_const(const IndexShape& shape);
IndexExpr num_elements(const IndexShape& shape);
IndexShape contiguous_strides(const IndexShape& shape);

// The same expression over other symbols; `symbol` knows each of them.
IndexExpr index_expr(const Dim& d, const std::function<IndexExpr(const std::string&)>& symbol);
Dim to_dim(const IndexExpr& e, const std::function<Dim(SymbolId)>& symbol);

}  // namespace fusec::ir

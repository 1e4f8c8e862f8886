// SPDX-License-Identifier: Apache-2.0
// Checks that every access stays inside its buffer: by proof from ranges and guards, or, for guarded accesses that
// cannot be proven, by sampling for a counterexample.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "ir/support/hash.h"
#include "ir/text/kernel_text.h"
#include "ir/verify/kernel_access.h"

namespace fusec::ir {
namespace {

constexpr int kTrials = 400;

bool uses_data(const AccessTable& table, const IndexExpr& d) {
  std::set<SymbolId> symbols;
  d.collect_symbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(), [&](SymbolId s) { return table.value_depth.count(s) != 0; });
}

// Draws sizes and iterations, favouring the ends of ranges.
class Sampler {
 public:
  Sampler(const Kernel& kernel, const Access& access, const IndexExpr& index, const IndexExpr& extent)
      : k_(kernel), a_(access), index_(index), extent_(extent) {}

  // Returns, for example, "17 of 17 elements, where i0 = 1, n = 17"; nullopt if no sample lies outside.
  std::optional<std::string> counterexample() {
    for (int i = 0; i < kTrials; ++i) {
      if (!draw()) continue;
      const auto at = index_.eval(values_), size = extent_.eval(values_);
      if (at && size && (*at < 0 || *at >= *size))
        return fmt::format("{} of {} elements, where {}", *at, *size, setting());
    }
    return std::nullopt;
  }

 private:
  int64_t random(int64_t n) {
    state_ = mix64(state_);
    return static_cast<int64_t>(state_ % static_cast<uint64_t>(n));
  }

  int64_t below(int64_t n) {
    const int64_t kind = random(3);
    return kind == 0 ? 0 : kind == 1 ? n - 1 : random(n);
  }

  bool draw() {
    constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 64, 65, 100, 1000};
    values_.clear();
    std::set<SymbolId> symbols, bound;
    for (const EnclosingLoop& l : a_.loops) l.extent.collect_symbols(symbols), bound.insert(l.var);
    bound.insert(kLane);
    index_.collect_symbols(symbols);
    extent_.collect_symbols(symbols);
    for (const IndexExpr& g : a_.guard) g.collect_symbols(symbols);
    for (const auto& [name, s] : by_name(symbols)) {
      if (bound.count(s) == 0) values_[s] = kSizes[random(std::size(kSizes))];
    }
    for (const EnclosingLoop& l : a_.loops) {
      const auto n = l.extent.eval(values_);
      if (!n || *n <= 0) return false;
      values_[l.var] = below(*n);
    }
    values_[kLane] = below(a_.width);
    return std::all_of(a_.guard.begin(), a_.guard.end(),
                       [&](const IndexExpr& g) { return g.eval(values_).value_or(-1) >= 0; });
  }

  std::map<std::string, SymbolId> by_name(const std::set<SymbolId>& symbols) const {
    std::map<std::string, SymbolId> out;
    for (const SymbolId s : symbols) out.emplace(name_of(k_, s), s);
    return out;
  }

  std::string setting() const {
    std::set<SymbolId> used;
    index_.collect_symbols(used);
    extent_.collect_symbols(used);
    std::string out;
    for (const auto& [name, s] : by_name(used))
      out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", name, values_.at(s));
    return out.empty() ? "always" : out;
  }

  const Kernel& k_;
  const Access& a_;
  const IndexExpr &index_, &extent_;
  std::map<SymbolId, int64_t> values_;
  uint64_t state_ = 1;
};

void check_axis(const Kernel& kernel, const AccessTable& table, const Access& a, std::size_t axis,
                std::vector<std::string>& out) {
  const Buffer& b = kernel.buffers[a.buffer];
  const IndexExpr extent = with_facts(b.shape[axis], kernel);
  const IndexRanges ranges = compute_ranges(table, a);
  const IndexExpr index = simplify(a.index[axis], ranges);
  if (proves_nonneg_narrowed(index, ranges, a.guard) && proves_nonneg_narrowed(extent - 1 - index, ranges, a.guard)) {
    return;
  }
  const std::string where = fmt::format("{} in '{}'", b.name, print_stmt(kernel, *a.stmt));
  if (uses_data(table, a.index[axis])) {
    out.push_back(fmt::format("the index of axis {} of {} comes from data: it needs a clamp or a guard", axis, where));
    return;
  }
  const auto outside = Sampler(kernel, a, a.index[axis], extent).counterexample();
  if (outside) {
    out.push_back(fmt::format("axis {} of {} is accessed at {}", axis, where, *outside));
  } else if (a.guard.empty()) {
    out.push_back(fmt::format("cannot prove axis {} of {} in range: 0 <= {} < {}", axis, where,
                              named(kernel, index).str(), named(kernel, extent).str()));
  }
}

}  // namespace

void check_ranges(const Kernel& kernel, const AccessTable& table, std::vector<std::string>& out) {
  for (const Access& a : table.accesses) {
    for (std::size_t axis = 0; axis < a.index.size(); ++axis) {
      if (!(axis < 32 && a.clamp >> axis & 1)) check_axis(kernel, table, a, axis, out);
    }
  }
}

}  // namespace fusec::ir

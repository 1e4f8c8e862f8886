// SPDX-License-Identifier: Apache-2.0
#include "ir/graph/limits.h"

#include <cstdint>
#include <optional>
#include <set>

#include "ir/graph/graph.h"

namespace fusec::ir {

std::string range_text(const ExtentRange& range) {
  if (range.most == INT64_MAX) return "at least " + std::to_string(range.least);
  if (range.least == 0) return "at most " + std::to_string(range.most);
  return std::to_string(range.least) + " to " + std::to_string(range.most);
}

namespace {

// The last symbol of the sum that is one term of it with the coefficient 1, and occurs nowhere else in it.
std::optional<std::string> last_addend(const Dim& sum) {
  std::set<std::string> symbols;
  sum.collect_symbols(symbols);
  for (auto symbol = symbols.rbegin(); symbol != symbols.rend(); ++symbol)
    if (!(sum - Dim::symbol(*symbol)).uses(*symbol)) return *symbol;
  return std::nullopt;
}

void narrow(DimRange& range, int64_t lo, const std::optional<Dim>& hi) {
  range.lo = max(range.lo.value_or(0), lo);
  if (hi) range.hi = range.hi ? min(*range.hi, *hi) : *hi;
}

}  // namespace

// A symbol's bound is over symbols that come before it by name, so that no two bounds are over each other.
DimRanges symbol_ranges(const Limits& limits) {
  DimRanges ranges;
  for (const auto& [extent, range] : limits) {
    const std::optional<std::string> symbol = last_addend(extent);
    if (!symbol) continue;
    const Dim rest = extent - Dim::symbol(*symbol);
    const bool is_bounded = range.most < INT64_MAX;
    narrow(ranges[*symbol], extent.as_symbol() ? range.least : 0,
           is_bounded ? std::optional(range.most - rest) : std::nullopt);
    // What is left of a sum of parts that are at least 0 is no larger than the sum.
    if (!is_bounded || rest.is_const() || !proves_nonneg(rest, {})) continue;
    std::set<std::string> others;
    rest.collect_symbols(others);
    for (const std::string& other : others)
      if (!(rest - Dim::symbol(other)).uses(other) && proves_nonneg(rest - Dim::symbol(other), {}))
        narrow(ranges[other], 0, Dim(range.most));
  }
  return ranges;
}

}  // namespace fusec::ir

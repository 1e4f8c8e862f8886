// SPDX-License-Identifier: Apache-2.0
#include "ir/graph/limits.h"

#include <charconv>
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

std::optional<int64_t> parse_extent(std::string_view text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || value < 0) return std::nullopt;
  return value;
}

std::optional<ExtentRange> parse_range(std::string_view text) {
  const std::size_t at = text.find(':');
  if (at == std::string_view::npos || text.size() == 1) return std::nullopt;
  ExtentRange range;
  const auto least = at == 0 ? std::optional(range.least) : parse_extent(text.substr(0, at));
  const auto most = at + 1 == text.size() ? std::optional(range.most) : parse_extent(text.substr(at + 1));
  if (!least || !most || *least > *most) return std::nullopt;
  return ExtentRange{*least, *most};
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

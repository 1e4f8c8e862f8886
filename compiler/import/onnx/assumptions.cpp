// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/onnx/assumptions.h"

#include <algorithm>

namespace fusec::importer {
namespace {

using ir::TensorOp;

std::optional<UnequalExtents> find_unequal_factors(const ir::Type& a, const ir::Type& b, const ir::Attrs& attrs) {
  const std::size_t p = a.shape.size(), q = b.shape.size();
  if (p < 2 || q < 2) return std::nullopt;
  const Dim& x = a.shape[attrs.i("transpose_a") == 1 ? p - 2 : p - 1];
  const Dim& y = b.shape[attrs.i("transpose_b") == 1 ? q - 1 : q - 2];
  if (!(x == y)) return UnequalExtents{x, y};
  return find_unequal_broadcast(Shape(a.shape.begin(), a.shape.end() - 2), Shape(b.shape.begin(), b.shape.end() - 2));
}

std::optional<UnequalExtents> find_unequal_parts(const std::vector<ir::Type>& parts, std::size_t axis) {
  for (const ir::Type& part : parts) {
    if (part.rank() != parts[0].rank()) return std::nullopt;
    for (std::size_t i = 0; i < part.shape.size(); ++i)
      if (i != axis && !(part.shape[i] == parts[0].shape[i])) return UnequalExtents{parts[0].shape[i], part.shape[i]};
  }
  return std::nullopt;
}

std::optional<UnequalExtents> find_unequal_counts(const Shape& from, const Shape& to) {
  const Dim a = num_elements(from), b = num_elements(to);
  return a == b ? std::nullopt : std::optional(UnequalExtents{a, b});
}

std::optional<UnequalExtents> find_unequal_channels(const std::vector<ir::Type>& operands, const ir::Attrs& attrs) {
  const Shape &x = operands[0].shape, &filter = operands[1].shape;
  if (x.size() != filter.size() || x.size() < 2) return std::nullopt;
  const Dim& channels = attrs.s("layout") == "last" ? x.back() : x[1];
  const Dim taken = filter[1] * attrs.i("groups");
  if (!(channels == taken)) return UnequalExtents{channels, taken};
  return operands.size() > 2 ? find_unequal(operands[2].shape, {filter[0]}) : std::nullopt;
}

// The bounds e <= c for which min(c, e) is e, of all such minima in the extent.
void collect_bounds(const Dim& extent, ir::Limits& out) {
  for (const Dim::Term& term : extent.terms()) {
    for (const Dim::Atom& atom : term.atoms) {
      for (const Dim& arg : atom.args) collect_bounds(arg, out);
      if (atom.fn != Dim::Fn::min) continue;
      for (const std::size_t i : {0, 1}) {
        const Dim &arg = atom.args[i], &bound = atom.args[1 - i];
        if (!arg.is_const() && bound.is_const() && bound.value() >= 1) add_limit(arg, {0, bound.value()}, out);
      }
    }
  }
}

bool assume_bounds(const UnequalExtents& extents, Assumptions& to) {
  ir::Limits limits;
  collect_bounds(extents.first, limits);
  collect_bounds(extents.second, limits);
  if (limits.empty()) return false;
  for (const auto& [extent, range] : to.limits)
    if (!add_limit(extent, range, limits)) return false;
  const DimRanges ranges = ir::symbol_ranges(limits);
  if (!(simplify(extents.first, ranges) == simplify(extents.second, ranges))) return false;
  to.limits = std::move(limits);
  return true;
}

// The value of a symbol for which `zero` is 0, where it is one term of the sum alone.
std::optional<Dim> solve(const Dim& zero, const std::string& symbol) {
  for (const int sign : {1, -1}) {
    const Dim rest = zero - Dim(sign) * Dim::symbol(symbol);
    if (!rest.uses(symbol)) return sign == 1 ? -rest : rest;
  }
  return std::nullopt;
}

// The limits when the symbol has this value; nullopt if they do not let it.
std::optional<ir::Limits> replace(const std::string& symbol, const Dim& value, const ir::Limits& limits) {
  ir::Limits out;
  for (const auto& [extent, range] : limits)
    if (!add_limit(extent.substitute({{symbol, value}}), range, out)) return std::nullopt;
  return out;
}

// Without the factors that all terms share: B*S - B*T is 0 where S - T is.
Dim without_common_factors(Dim sum, const std::vector<std::string>& symbols) {
  if (const int64_t factor = sum.known_divisor(); factor > 1) sum = *sum.exact_div(factor);
  for (const std::string& symbol : symbols)
    while (const std::optional<Dim> rest = sum.uses(symbol) ? sum.exact_div(Dim::symbol(symbol)) : std::nullopt)
      sum = *rest;
  return sum;
}

bool assume_value(const Dim& difference, const std::vector<std::string>& symbols, Assumptions& to) {
  const Dim zero = without_common_factors(difference, symbols);
  for (const bool may_be_negative : {false, true}) {
    for (auto symbol = symbols.rbegin(); symbol != symbols.rend(); ++symbol) {
      const std::optional<Dim> value = zero.uses(*symbol) ? solve(zero, *symbol) : std::nullopt;
      if (!value || (value->is_const() && value->value() < 1)) continue;
      if (!may_be_negative && !proves_nonneg(*value, {})) continue;
      std::optional<ir::Limits> limits = replace(*symbol, *value, to.limits);
      if (!limits) continue;
      to.limits = *std::move(limits);
      for (auto& [name, equal] : to.equals) equal = equal.substitute({{*symbol, *value}});
      to.equals.emplace(*symbol, *value);
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<UnequalExtents> find_unequal_broadcast(const Shape& a, const Shape& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const Dim &x = a[a.size() - 1 - i], &y = b[b.size() - 1 - i];
    if (!(x == y) && !x.is(1) && !y.is(1)) return UnequalExtents{x, y};
  }
  return std::nullopt;
}

std::optional<UnequalExtents> find_unequal(const Shape& a, const Shape& b) {
  if (a.size() != b.size()) return std::nullopt;
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin());
  return x == a.end() ? std::nullopt : std::optional(UnequalExtents{*x, *y});
}

std::optional<UnequalExtents> find_unequal(ir::Op op, const std::vector<ir::Type>& operands, const ir::Attrs& attrs) {
  if (op == TensorOp::matmul) return find_unequal_factors(operands[0], operands[1], attrs);
  if (op == TensorOp::concat) return find_unequal_parts(operands, static_cast<std::size_t>(attrs.i("axis")));
  if (op == TensorOp::reshape) return find_unequal_counts(operands[0].shape, attrs.dims("shape"));
  if (op == TensorOp::conv) return find_unequal_channels(operands, attrs);
  if (!op.is_scalar()) return std::nullopt;
  for (std::size_t i = 0; i < operands.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (auto unequal = find_unequal_broadcast(operands[k].shape, operands[i].shape)) return unequal;
  return std::nullopt;
}

bool assume_equal(const UnequalExtents& extents, const std::vector<std::string>& symbols, Assumptions& to) {
  if (extents.first.is_const() && extents.second.is_const()) return false;
  return assume_bounds(extents, to) || assume_value(extents.first - extents.second, symbols, to);
}

bool add_limit(const Dim& extent, const ExtentRange& range, ir::Limits& limits) {
  if (extent.is_const()) return range.least <= extent.value() && extent.value() <= range.most;
  const auto known = limits.find(extent);
  const ExtentRange old = known == limits.end() ? ExtentRange() : known->second;
  const ExtentRange both{std::max(old.least, range.least), std::min(old.most, range.most)};
  if (both.least > both.most) return false;
  limits[extent] = both;
  return true;
}

}  // namespace fusec::importer

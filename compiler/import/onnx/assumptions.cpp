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

// The bounds s <= c for which min(c, s) is s, of all such minima in the extent.
void collect_bounds(const Dim& extent, DimRanges& out) {
  for (const Dim::Term& term : extent.terms()) {
    for (const Dim::Atom& atom : term.atoms) {
      for (const Dim& arg : atom.args) collect_bounds(arg, out);
      if (atom.fn != Dim::Fn::min) continue;
      for (const std::size_t i : {0, 1}) {
        const std::optional<std::string> symbol = atom.args[i].as_symbol();
        const Dim& bound = atom.args[1 - i];
        if (!symbol || !bound.is_const() || bound.value() < 1) continue;
        std::optional<Dim>& most = out[*symbol].hi;
        most = most ? min(*most, bound) : bound;
      }
    }
  }
}

bool assume_bounds(const UnequalExtents& extents, Assumptions& to) {
  DimRanges ranges;
  collect_bounds(extents.first, ranges);
  collect_bounds(extents.second, ranges);
  if (ranges.empty() || !(fusec::simplify(extents.first, ranges) == fusec::simplify(extents.second, ranges)))
    return false;
  for (const auto& [symbol, range] : ranges) {
    const auto [at, is_new] = to.most.emplace(symbol, range.hi->value());
    at->second = std::min(at->second, range.hi->value());
  }
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

bool assume_value(const Dim& zero, const std::vector<std::string>& symbols, Assumptions& to) {
  for (auto symbol = symbols.rbegin(); symbol != symbols.rend(); ++symbol) {
    const std::optional<Dim> value = zero.uses(*symbol) ? solve(zero, *symbol) : std::nullopt;
    if (!value || (value->is_const() && value->value() < 1)) continue;
    // A bound of the symbol becomes one of what it is equal to.
    if (const auto bound = to.most.find(*symbol); bound != to.most.end()) {
      const std::optional<std::string> other = value->as_symbol();
      if (!other && !(value->is_const() && value->value() <= bound->second)) continue;
      if (other) {
        const auto [at, is_new] = to.most.emplace(*other, bound->second);
        at->second = std::min(at->second, bound->second);
      }
      to.most.erase(*symbol);
    }
    for (auto& [name, equal] : to.equals) equal = equal.substitute({{*symbol, *value}});
    to.equals.emplace(*symbol, *value);
    return true;
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

Dim simplify(const Dim& extent, const Assumptions& assumptions) {
  if (extent.is_const() || assumptions.most.empty()) return extent;
  DimRanges ranges;
  for (const auto& [symbol, most] : assumptions.most) ranges[symbol].hi = most;
  return fusec::simplify(extent, ranges);
}

}  // namespace fusec::importer

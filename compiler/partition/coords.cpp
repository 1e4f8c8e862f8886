// SPDX-License-Identifier: Apache-2.0
// Computes the input coordinates of plain index maps and common factorizations of shapes, for partition and lower.

#include <algorithm>

#include "compiler/partition/domain.h"
#include "ir/support/check.h"

namespace fusec::compiler {

using ir::TensorOp;

Coords broadcast_coords(const Coords& coords, const Shape& from) {
  FUSEC_CHECK(from.size() <= coords.size()) << "broadcast from rank " << from.size() << " to " << coords.size();
  Coords result(coords.end() - static_cast<std::ptrdiff_t>(from.size()), coords.end());
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i].is(1)) result[i] = 0;
  return result;
}

namespace {

// Splits a common factor off the extents a and b; returns false when neither divides the other.
bool split_front(Dim& a, Dim& b, Dim& factor) {
  if (a == b) {
    factor = a;
    a = b = 1;
    return true;
  }
  if (auto q = b.exact_div(a)) {
    factor = a;
    b = *q;
    a = 1;
    return true;
  }
  if (auto q = a.exact_div(b)) {
    factor = b;
    a = *q;
    b = 1;
    return true;
  }
  return false;
}

struct Refined {
  Shape factors;
  std::vector<int> a_groups, b_groups;
};

std::optional<Refined> refine(const Shape& a, const Shape& b) {
  Refined r;
  r.a_groups.assign(a.size(), 0);
  r.b_groups.assign(b.size(), 0);
  size_t i = 0, j = 0;
  Dim rest_a = 1, rest_b = 1;
  int from_a = -1, from_b = -1;
  for (;;) {
    while (rest_a.is(1) && i < a.size()) rest_a = a[from_a = static_cast<int>(i++)];
    while (rest_b.is(1) && j < b.size()) rest_b = b[from_b = static_cast<int>(j++)];
    if (rest_a.is(1) && rest_b.is(1)) return r;
    if (rest_a.is(1) || rest_b.is(1)) return std::nullopt;
    Dim factor;
    if (!split_front(rest_a, rest_b, factor)) return std::nullopt;
    r.factors.push_back(factor);
    ++r.a_groups[static_cast<size_t>(from_a)];
    ++r.b_groups[static_cast<size_t>(from_b)];
  }
}

// Adapts groups to finer factors: old factor i has become `finer[i]` factors.
std::vector<int> regroup(const std::vector<int>& groups, const std::vector<int>& finer) {
  std::vector<int> result;
  size_t next = 0;
  for (int count : groups) {
    int sum = 0;
    for (int k = 0; k < count; ++k) sum += finer[next++];
    result.push_back(sum);
  }
  return result;
}

}  // namespace

std::optional<Factorization> factorize(const std::vector<Shape>& shapes) {
  Factorization f;
  for (const Shape& shape : shapes) {
    if (f.groups.empty()) {
      std::vector<int> groups;
      for (const Dim& d : shape) {
        groups.push_back(d.is(1) ? 0 : 1);
        if (!d.is(1)) f.factors.push_back(d);
      }
      f.groups.push_back(groups);
      continue;
    }
    auto r = refine(f.factors, shape);
    if (!r) return std::nullopt;
    for (auto& groups : f.groups) groups = regroup(groups, r->a_groups);
    f.factors = r->factors;
    f.groups.push_back(r->b_groups);
  }
  return f;
}

namespace {

std::vector<size_t> proper_axes(const Shape& shape) {
  std::vector<size_t> axes;
  for (size_t i = 0; i < shape.size(); ++i)
    if (!shape[i].is(1)) axes.push_back(i);
  return axes;
}

bool is_empty(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is(0); });
}

}  // namespace

Coords reshape_coords(const Coords& coords, const Shape& from, const Shape& to, const DimRanges& ranges) {
  Coords result(to.size(), Dim(0));
  if (is_empty(from) || is_empty(to)) return result;  // there is nothing to read, and no extent to divide by
  const auto in = proper_axes(from), out = proper_axes(to);
  // Walks groups of axes with equal products, so that axes which correspond one to one keep their coordinate.
  for (size_t i = 0, j = 0; i < in.size() || j < out.size();) {
    size_t i_end = i, j_end = j;
    Dim a = 1, b = 1;
    do {
      const bool take_in = j_end == out.size() || (i_end < in.size() && (a == b || b.exact_div(a).has_value()));
      if (take_in && i_end == in.size()) break;
      if (take_in) {
        a *= from[in[i_end++]];
      } else {
        b *= to[out[j_end++]];
      }
    } while (!(a == b) || i_end == i || j_end == j);
    if (i_end == i + 1 && j_end == j + 1) {
      result[out[j]] = coords[in[i]];
    } else {
      Dim linear = 0;
      for (size_t k = i; k < i_end; ++k) linear = linear * from[in[k]] + coords[in[k]];
      linear = simplify(linear, ranges);
      for (size_t k = j_end; k-- > j;) {
        result[out[k]] = k == j ? linear : simplify(mod(linear, to[out[k]]), ranges);
        linear = simplify(floordiv(linear, to[out[k]]), ranges);
      }
    }
    i = i_end;
    j = j_end;
  }
  return result;
}

bool is_plain_map(ir::Op op) {
  if (op.is_scalar()) return true;
  switch (op.tensor()) {
    case TensorOp::broadcast:
    case TensorOp::reshape:
    case TensorOp::transpose:
    case TensorOp::slice:
    case TensorOp::unfold:
      return true;
    default:
      return false;
  }
}

Coords input_coords(const ir::Graph& graph, const ir::Node& node, int i, const Coords& coords,
                    const DimRanges& ranges) {
  const Shape& from = graph.type(node.inputs[static_cast<size_t>(i)]).shape;
  if (node.op.is_scalar()) return broadcast_coords(coords, from);
  switch (node.op.tensor()) {
    case TensorOp::broadcast:
      return broadcast_coords(coords, from);
    case TensorOp::reshape:
      return reshape_coords(coords, graph.type(node.output).shape, from, ranges);
    case TensorOp::transpose: {
      const auto& perm = node.attrs.ints("perm");
      Coords result(coords.size());
      for (size_t k = 0; k < perm.size(); ++k) result[static_cast<size_t>(perm[k])] = coords[k];
      return result;
    }
    case TensorOp::slice: {
      const Shape& starts = node.attrs.dims("starts");
      const auto& steps = node.attrs.ints("steps");
      Coords result;
      for (size_t k = 0; k < coords.size(); ++k) result.push_back(starts[k] + Dim(steps[k]) * coords[k]);
      return result;
    }
    case TensorOp::unfold: {
      const auto axis = static_cast<std::ptrdiff_t>(node.attrs.i("axis"));
      const auto& steps = node.attrs.ints("steps");
      Coords result = coords;
      const auto at = result.begin() + axis;
      *at = at[0] * steps[0] + at[1] * steps[1];
      result.erase(at + 1);
      return result;
    }
    default:
      FUSEC_CHECK(false) << "no plain index map: " << node.op.name();
      return {};
  }
}

}  // namespace fusec::compiler

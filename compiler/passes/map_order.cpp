// SPDX-License-Identifier: Apache-2.0
// Moves reshapes in front of transposes.

#include "compiler/passes/map_order.h"

#include <algorithm>
#include <optional>

namespace fusec::compiler {
namespace {

constexpr int kMaxCrossed = 16;  // that a reshape moves across

// How many axes of `to` each axis of `from` becomes; nullopt if `to` does not only split axes.
std::optional<std::vector<std::size_t>> splits(const Shape& from, const Shape& to) {
  std::vector<std::size_t> counts;
  std::size_t next = 0;
  for (const Dim& extent : from) {
    Dim product(1);
    std::size_t n = 0;
    if (extent.is(1)) {
      if (next < to.size() && to[next].is(1)) ++next, ++n;
    } else {
      do {
        if (next == to.size()) return std::nullopt;
        product = product * to[next++];
        ++n;
      } while (!(product == extent));
    }
    counts.push_back(n);
  }
  for (; next < to.size() && to[next].is(1) && !counts.empty(); ++next) ++counts.back();
  return next == to.size() ? std::optional(counts) : std::nullopt;
}

ValueId reshaped_across(Graph& graph, ValueId v, const Shape& to, const std::string& origin, int steps) {
  const Node* const made = steps == 0 ? nullptr : graph.producer(v);
  if (made != nullptr && made->op == TensorOp::reshape)
    return reshaped_across(graph, made->inputs[0], to, origin, steps - 1);
  if (made != nullptr && made->op == TensorOp::transpose) {
    if (const auto counts = splits(graph.type(v).shape, to)) {
      const std::vector<int64_t> perm = made->attrs.ints("perm");
      std::vector<Shape> parts(perm.size());  // of each axis of x
      std::vector<int64_t> begin(perm.size());
      std::size_t next = 0;
      for (std::size_t i = 0; i < perm.size(); ++i) {
        Shape& part = parts[static_cast<std::size_t>(perm[i])];
        part.assign(to.begin() + static_cast<std::ptrdiff_t>(next),
                    to.begin() + static_cast<std::ptrdiff_t>(next + (*counts)[i]));
        next += (*counts)[i];
      }
      Shape inner;
      for (std::size_t j = 0; j < parts.size(); ++j) {
        begin[j] = static_cast<int64_t>(inner.size());
        inner.insert(inner.end(), parts[j].begin(), parts[j].end());
      }
      std::vector<int64_t> outer;
      for (std::size_t i = 0; i < perm.size(); ++i) {
        for (std::size_t k = 0; k < (*counts)[i]; ++k)
          outer.push_back(begin[static_cast<std::size_t>(perm[i])] + static_cast<int64_t>(k));
      }
      const ValueId x = made->inputs[0];
      return transposed(graph, reshaped_across(graph, x, inner, origin, steps - 1), outer, origin);
    }
  }
  return graph.type(v).shape == to ? v : add_node(graph, TensorOp::reshape, {v}, {{"shape", to}}, origin);
}

}  // namespace

ValueId transposed(Graph& graph, ValueId v, std::vector<int64_t> perm, const std::string& origin) {
  if (const Node* made = graph.producer(v); made != nullptr && made->op == TensorOp::transpose) {
    const std::vector<int64_t>& inner = made->attrs.ints("perm");
    for (int64_t& axis : perm) axis = inner[static_cast<std::size_t>(axis)];
    v = made->inputs[0];
  }
  if (std::is_sorted(perm.begin(), perm.end())) return v;
  return add_node(graph, TensorOp::transpose, {v}, {{"perm", perm}}, origin);
}

ValueId reshaped(Graph& graph, ValueId v, const Shape& to, const std::string& origin) {
  return reshaped_across(graph, v, to, origin, kMaxCrossed);
}

}  // namespace fusec::compiler

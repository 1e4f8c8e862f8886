// SPDX-License-Identifier: Apache-2.0
// Evaluation of nodes at import: on constants, and on integers that are known as expressions over symbols.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fusec/dim.h"
#include "fusec/tensor.h"
#include "ir/graph/graph.h"
#include "ir/ops/op.h"

namespace fusec::importer {

// Decides about integers over symbols of which the ranges are known; an extent without one is at least 0.
class Decider {
 public:
  explicit Decider(const DimRanges& ranges) : ranges_(&ranges) {}

  // The value of a scalar op on integers or bools (0, 1), or nullopt where it is not certain.
  std::optional<Dim> apply(ir::ScalarOp op, std::span<const Dim> args) const;

  // Whether a < b, a <= b, a == b; nullopt where it is not certain.
  std::optional<bool> less(const Dim& a, const Dim& b) const;
  std::optional<bool> less_equal(const Dim& a, const Dim& b) const;
  std::optional<bool> equal(const Dim& a, const Dim& b) const;

  // min and max, simplified where the order is certain.
  Dim smaller(const Dim& a, const Dim& b) const;
  Dim larger(const Dim& a, const Dim& b) const;

 private:
  bool nonneg(const Dim& a) const { return proves_nonneg(a, *ranges_); }
  bool positive(const Dim& a) const { return nonneg(a - 1); }
  std::optional<Dim> divide(const Dim& a, const Dim& b) const;
  std::optional<Dim> remainder(const Dim& a, const Dim& b, bool floored) const;

  const DimRanges* ranges_;
};

// Whether an expression is short enough to compute with. Hostile models contain formulas whose products grow without
// bound.
bool is_short(const Dim& d);
// Whether each of these and their product are short.
bool is_short_product(const std::vector<Dim>& dims);

// The longest integer tensor treated as shape arithmetic. Such tensors have about one element per axis; longer ones are
// data.
inline constexpr int64_t kMaxShapeElements = 1024;

// Whether a node on constants is evaluated at import: it is small, and its result has the same bits on every device
// (integers, moves, and float ops that IEEE rounds correctly). Other nodes are left to the optimizer.
bool is_worth_folding(ir::Op op, const std::vector<const Tensor*>& inputs, const ir::Attrs& attrs,
                      const ir::Type& type);

// Evaluates one node on constants. Throws ImportError.
Tensor evaluate(ir::Op op, const std::vector<const Tensor*>& inputs, const ir::Attrs& attrs);

// A tensor of integers known as expressions: its extents and row-major elements.
struct KnownIntegers {
  std::vector<int64_t> shape;
  std::vector<Dim> elements;
};

// Evaluates one node on such integers. Returns the elements of the result, or nullopt when they cannot be determined.
std::optional<std::vector<Dim>> evaluate_symbolic(ir::Op op, const std::vector<KnownIntegers>& inputs,
                                                  const ir::Attrs& attrs, const ir::Type& type, const Decider& decider);

// The extents of a type, which must be constant.
std::vector<int64_t> extents(const ir::Type& type);

ir::Attrs cast_attrs(DType to);

}  // namespace fusec::importer

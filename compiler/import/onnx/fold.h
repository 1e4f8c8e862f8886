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

// Returns the value of a scalar op on integers or bools (0, 1), or nullopt where it cannot be decided for all extents
// >= 0.
std::optional<Dim> apply_symbolic(ir::ScalarOp op, std::span<const Dim> args);

// Whether a < b, a <= b, a == b; nullopt where it is not certain.
std::optional<bool> decide_less(const Dim& a, const Dim& b);
std::optional<bool> decide_less_equal(const Dim& a, const Dim& b);
std::optional<bool> decide_equal(const Dim& a, const Dim& b);

// Whether an expression is short enough to compute with. Hostile models contain formulas whose products grow without
// bound.
bool is_short(const Dim& d);
// Whether each of these and their product are short.
bool is_short_product(const std::vector<Dim>& dims);

// min and max, simplified where the order is certain.
Dim smaller(const Dim& a, const Dim& b);
Dim larger(const Dim& a, const Dim& b);

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
                                                  const ir::Attrs& attrs, const ir::Type& type);

// The extents of a type, which must be constant.
std::vector<int64_t> extents(const ir::Type& type);

ir::Attrs cast_attrs(DType to);

}  // namespace fusec::importer

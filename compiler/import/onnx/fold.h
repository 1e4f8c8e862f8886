// SPDX-License-Identifier: Apache-2.0
// Evaluation of nodes at import.
#pragma once

#include <optional>
#include <vector>

#include "fusec/tensor.h"
#include "ir/graph/graph.h"

namespace fusec::importer {

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

// SPDX-License-Identifier: Apache-2.0
// Computing at import.
#pragma once

#include <optional>
#include <vector>

#include "fusec/tensor.h"
#include "ir/graph/graph.h"

namespace fusec::importer {

// Shape arithmetic is about tensors with an element per axis; longer ones are data.
inline constexpr int64_t kMaxShapeElements = 1024;

// Whether a node on constants is computed at once: it is small, and the result has the same bits on every device
// (integers, moves, and float ops that IEEE rounds correctly). The rest is left to the optimizer.
bool is_worth_folding(ir::Op op, const std::vector<const Tensor*>& inputs, const ir::Attrs& attrs,
                      const ir::Type& type);

// Throws ImportError.
Tensor evaluate(ir::Op op, const std::vector<const Tensor*>& inputs, const ir::Attrs& attrs);

// Integers known as expressions: extents and row-major elements.
struct KnownIntegers {
  std::vector<int64_t> shape;
  std::vector<Dim> elements;
};

// The elements of the result, or nullopt when they cannot be told.
std::optional<std::vector<Dim>> evaluate_symbolic(ir::Op op, const std::vector<KnownIntegers>& inputs,
                                                  const ir::Attrs& attrs, const ir::Type& type);

// Of a type whose shape is constant.
std::vector<int64_t> extents(const ir::Type& type);

ir::Attrs cast_attrs(DType to);

}  // namespace fusec::importer
